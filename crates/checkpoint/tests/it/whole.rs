//! Reads all of a checkpoint: finds all damage, and reads all values.

use crate::{KEYS, check, len, temporary, value, write};
use intendant_checkpoint::{Checkpoint, CheckpointError, Folder, Manifest, Part, Range, Rows};
use intendant_core::{ElementType, Key};
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A checkpoint of two parts with several blocks each.
fn write_large(folder: &Folder) -> u64 {
    let cut = folder.begin().unwrap();
    let ranges = vec![Range { name: "wide".to_owned(), keys: 800, len: 10_000 }];
    let part = |at: u64| {
        let mut rows = Rows::<f32>::new(&ranges);
        for key in (0..800).filter(|key| key % 2 == at) {
            rows.add(&[Key(key)], &vec![key as f32; 10_000]);
        }
        folder.write(cut, &format!("part-{at}"), &rows).unwrap()
    };
    let parts = vec![part(0), part(1)];
    folder.commit(&Manifest::new(cut, ElementType::F32, ranges, parts, json!(null))).unwrap();
    cut
}

fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

/// The damage of a checkpoint: files, offsets and reasons.
fn damages(place: &Path) -> Vec<(String, Option<u64>, String)> {
    let Err((first, others)) = Checkpoint::verify(place) else { return Vec::new() };
    let said = |error| match error {
        CheckpointError::Damaged { path, offset, reason } => {
            (path.file_name().unwrap().to_string_lossy().into_owned(), offset, reason)
        }
        error @ (CheckpointError::Version { .. } | _) => panic!("{error}"),
    };
    std::iter::once(first).chain(others).map(said).collect()
}

#[test]
fn all_damage_is_named() {
    let (_path, folder) = temporary();
    let place = folder.place(write_large(&folder));
    assert_eq!(damages(&place), []);
    let [one, other] = [0, 1].map(|part| place.join(format!("part-{part}.safetensors")));
    let block = Part::BLOCK as u64;
    // Neighbouring damaged blocks are reported once.
    for at in [3, block, block + 77, 3 * block] {
        flip(&one, at);
    }
    flip(&other, block - 1);
    let bytes = fs::metadata(&other).unwrap().len();
    File::options().write(true).open(&other).unwrap().set_len(2 * block + 100).unwrap();
    let expected = [
        ("part-0", 0, "the sums of its blocks 0 to 1 are not those that were written".to_owned()),
        ("part-0", 3 * block, "the sum of its block 3 is not the one that was written".to_owned()),
        (
            "part-1",
            2 * block + 100,
            format!("it has {} bytes, and was written with {bytes}", 2 * block + 100),
        ),
        ("part-1", 0, "the sum of its block 0 is not the one that was written".to_owned()),
    ];
    let expected =
        expected.map(|(part, offset, reason)| (format!("{part}.safetensors"), Some(offset), reason));
    assert_eq!(damages(&place), expected);
}

#[test]
fn values_are_read_in_any_order_and_from_several_parts() {
    let (_path, folder) = temporary();
    for part_of in [|_| 0, |key: u64| (key % 3) as usize, |key: u64| (key / 200) as usize] {
        let cut = write::<f64>(&folder, 5, part_of);
        let checkpoint = Checkpoint::verify(&folder.place(cut)).map_err(|(first, _)| first).unwrap();
        check::<f64>(&checkpoint, 5);
        let mut values = checkpoint.values::<f64>();
        let mut read = |key: u64| {
            let mut found = vec![0.0; len(key)];
            values.read(Key(key), &mut found).unwrap();
            assert_eq!(found, value::<f64>(key, 5), "key {key}");
        };
        (0..KEYS).for_each(&mut read);
        (0..KEYS).rev().for_each(&mut read);
        (0..2000).for_each(|at| read(at * 311 % KEYS));
    }
}

#[test]
fn cuts_without_manifest_are_listed() {
    let (_path, folder) = temporary();
    assert_eq!(folder.unfinished().unwrap(), [0; 0]);
    let unfinished = folder.begin().unwrap();
    let cut = write::<f32>(&folder, 1, |_| 0);
    assert_eq!((folder.unfinished().unwrap(), folder.cuts().unwrap()), (vec![unfinished], vec![cut]));
    fs::remove_file(folder.place(cut).join("manifest.json")).unwrap();
    assert_eq!((folder.unfinished().unwrap(), folder.cuts().unwrap()), (vec![unfinished, cut], vec![]));
}

#[test]
fn more_keys_than_are_in_memory_at_once_are_all_found() {
    const MANY: u64 = 150_000;
    let (_path, folder) = temporary();
    let ranges = vec![Range { name: "many".to_owned(), keys: MANY, len: 1 }];
    let write = |doubled: Option<u64>| {
        let cut = folder.begin().unwrap();
        let mut rows = Rows::<f32>::new(&ranges);
        for key in (0..MANY).rev() {
            rows.add(&[Key(if doubled == Some(key) { key + 1 } else { key })], &[key as f32]);
        }
        let part = folder.write(cut, "part", &rows).unwrap();
        folder
            .commit(&Manifest::new(cut, ElementType::F32, ranges.clone(), vec![part], json!(null)))
            .unwrap();
        folder.place(cut)
    };
    let checkpoint = Checkpoint::open(&write(None)).unwrap();
    let (mut values, mut value) = (checkpoint.values::<f32>(), [0.0]);
    for key in 0..MANY {
        values.read(Key(key), &mut value).unwrap();
        assert_eq!(value, [key as f32]);
    }
    let [(_, offset, reason)] = damages(&write(Some(10))).try_into().unwrap();
    assert_eq!(reason, "key 11 occurs twice");
    assert!(offset.is_some_and(|at| at > (MANY - 12) * 8), "{offset:?}");
}
