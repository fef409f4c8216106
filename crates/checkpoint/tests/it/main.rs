//! The tests of this crate from outside.

mod whole;

use intendant_checkpoint::{Checkpoint, CheckpointError, Folder, Manifest, Part, Range, Rows, is_address};
use intendant_core::{Element, ElementType, Key};
use proptest::prelude::*;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn ranges() -> Vec<Range> {
    let range = |name: &str, keys, len| Range { name: name.to_owned(), keys, len };
    vec![range("word", 700, 3), range("topic", 40, 1), range("wide", 2, 5000)]
}

fn len(key: u64) -> usize {
    if key < 700 {
        3
    } else if key < 740 {
        1
    } else {
        5000
    }
}

const KEYS: u64 = 742;

fn value<E: Element>(key: u64, salt: u64) -> Vec<E> {
    (0..len(key)).map(|at| E::from_f64((key * 31 + salt) as f64 + at as f64 / 3.0)).collect()
}

/// Writes a checkpoint whose key `k` is in part `part_of(k)`. Its keys are not in ascending order.
fn write<E: Element>(folder: &Folder, salt: u64, part_of: impl Fn(u64) -> usize) -> u64 {
    write_naming::<E>(folder, None, salt, part_of)
}

/// Writes a checkpoint that names the best one.
fn write_naming<E: Element>(
    folder: &Folder,
    best: Option<u64>,
    salt: u64,
    part_of: impl Fn(u64) -> usize,
) -> u64 {
    let cut = folder.begin().unwrap();
    let mut parts: Vec<Rows<E>> = (0..4).map(|_| Rows::new(&ranges())).collect();
    for key in (0..KEYS).rev() {
        parts[part_of(key)].add(&[Key(key)], &value::<E>(key, salt));
    }
    let write = |(at, rows): (usize, &Rows<E>)| folder.write(cut, &format!("part-{at}"), rows).unwrap();
    let parts: Vec<Part> = parts.iter().enumerate().map(write).collect();
    let manifest = Manifest::new(cut, E::TYPE, ranges(), parts, json!({ "salt": salt }));
    folder.commit(&Manifest { best, ..manifest }).unwrap();
    cut
}

fn check<E: Element>(checkpoint: &Checkpoint, salt: u64) {
    for key in 0..KEYS {
        let mut read = vec![E::ZERO; len(key)];
        checkpoint.read(Key(key), &mut read).unwrap();
        assert_eq!(read, value::<E>(key, salt), "key {key}");
    }
    assert_eq!(checkpoint.manifest().run["salt"], salt);
}

fn temporary() -> (TempDir, Folder) {
    let path = tempfile::tempdir().unwrap();
    let folder = Folder::at(path.path().join("of/a/run")).unwrap();
    (path, folder)
}

proptest! {
    // There are few cases, because making files durable takes long.
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn what_was_written_is_read_from_any_parts(
        owners in proptest::collection::vec(0usize..4, KEYS as usize),
        salt in 0u64..1000,
    ) {
        let (_path, folder) = temporary();
        write::<f32>(&folder, salt, |key| owners[key as usize]);
        check::<f32>(&folder.latest().unwrap().unwrap().checkpoint, salt);
        write::<f64>(&folder, salt + 1, |key| owners[key as usize]);
        let latest = folder.latest().unwrap().unwrap();
        prop_assert_eq!(latest.checkpoint.element(), ElementType::F64);
        check::<f64>(&latest.checkpoint, salt + 1);
    }
}

#[test]
fn a_cut_without_manifest_is_not_a_checkpoint_and_goes_with_the_next_one() {
    let (_path, folder) = temporary();
    assert!(folder.latest().unwrap().is_none(), "the folder does not exist");
    let unfinished = folder.begin().unwrap();
    folder.write(unfinished, "part-0", &Rows::<f32>::new(&ranges())).unwrap();
    assert!(folder.latest().unwrap().is_none() && folder.cuts().unwrap().is_empty());
    let cut = write::<f32>(&folder, 1, |_| 2);
    assert!(cut > unfinished, "numbers are not used twice");
    folder.keep(2, &[]).unwrap();
    assert!(!folder.place(unfinished).exists());
    check::<f32>(&folder.latest().unwrap().unwrap().checkpoint, 1);
}

#[test]
fn the_newest_are_kept() {
    let (_path, folder) = temporary();
    let cuts: Vec<u64> = (0..4).map(|salt| write::<f32>(&folder, salt, |key| (key % 3) as usize)).collect();
    let under_way = folder.begin().unwrap();
    folder.keep(2, &[]).unwrap();
    assert_eq!(folder.cuts().unwrap(), cuts[2..]);
    assert!(folder.place(under_way).exists(), "a cut that is newer than all checkpoints is being written");
    folder.remove(cuts[3]).unwrap();
    check::<f32>(&folder.latest().unwrap().unwrap().checkpoint, 2);
}

#[test]
fn the_best_model_is_kept_as_long_as_a_newer_checkpoint_names_it() {
    let (_path, folder) = temporary();
    // A checkpoint that is not the best names the best one before it.
    let best = [None, Some(2), Some(2), Some(2), Some(5), Some(5)];
    let expected: [&[u64]; 6] = [&[1], &[1, 2], &[2, 3], &[2, 3, 4], &[2, 4, 5], &[5, 6]];
    for (best, expected) in best.into_iter().zip(expected) {
        write_naming::<f32>(&folder, best, 0, |key| (key % 3) as usize);
        folder.keep(2, &[]).unwrap();
        assert_eq!(folder.cuts().unwrap(), expected);
    }
    assert_eq!(folder.latest().unwrap().unwrap().checkpoint.manifest().best, Some(5));
}

#[test]
fn damaged_checkpoints_are_not_counted_among_those_that_are_kept() {
    let (_path, folder) = temporary();
    let cuts: Vec<u64> = (0..4).map(|salt| write::<f32>(&folder, salt, |_| 0)).collect();
    for cut in &cuts[1..3] {
        fs::write(folder.place(*cut).join("part-0.safetensors"), "x").unwrap();
    }
    folder.remove(cuts[3]).unwrap();
    let latest = folder.latest().unwrap().unwrap();
    check::<f32>(&latest.checkpoint, 0);
    assert_eq!((latest.damaged.clone(), latest.skipped.len()), (vec![cuts[2], cuts[1]], 2));
    let next = write::<f32>(&folder, 9, |_| 0);
    folder.keep(2, &latest.damaged).unwrap();
    assert_eq!(folder.cuts().unwrap(), [cuts[0], next]);
}

#[test]
fn a_folder_has_one_run_at_a_time() {
    let (_path, folder) = temporary();
    let claim = folder.claim().unwrap();
    let other = Folder::at(folder.path()).unwrap();
    let refused = other.claim().unwrap_err();
    assert!(matches!(refused, CheckpointError::InUse { .. }), "{refused}");
    write::<f32>(&other, 1, |_| 0);
    check::<f32>(&other.latest().unwrap().unwrap().checkpoint, 1);
    drop(claim);
    other.claim().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let refused = Folder::at(folder.path().join("file")).unwrap().claim().unwrap_err().to_string();
    assert!(refused.contains("cannot create") && refused.contains("not a directory"), "{refused}");
}

#[test]
fn what_cannot_be_looked_at_is_neither_unfinished_nor_damaged() {
    let (_path, folder) = temporary();
    let cuts: Vec<u64> = (0..3).map(|salt| write::<f32>(&folder, salt, |_| 0)).collect();
    let manifest = folder.place(cuts[2]).join("manifest.json");
    fs::remove_file(&manifest).unwrap();
    // A link to itself: looking at it is an error, for every user.
    std::os::unix::fs::symlink("manifest.json", &manifest).unwrap();
    for refused in
        [folder.cuts().unwrap_err(), folder.latest().unwrap_err(), folder.keep(1, &[]).unwrap_err()]
    {
        assert!(matches!(refused, CheckpointError::Io { .. }), "{refused}");
    }
    assert!(cuts.iter().all(|cut| folder.place(*cut).exists()), "nothing was removed");
}

#[test]
fn numbers_of_a_manifest_that_are_too_large_are_damage() {
    let (_path, folder) = temporary();
    let cut = write::<f32>(&folder, 0, |_| 0);
    let path = folder.place(cut).join("manifest.json");
    let mut manifest = Checkpoint::manifest_in(&folder.place(cut)).unwrap();
    for (at, keys) in [1u64 << 63, 1 << 63, KEYS].into_iter().enumerate() {
        manifest.ranges[at].keys = keys;
    }
    fs::write(&path, manifest.to_file()).unwrap();
    let refused = Checkpoint::open(&folder.place(cut)).unwrap_err();
    assert!(matches!(refused, CheckpointError::Damaged { .. }), "{refused}");
    fs::create_dir(folder.path().join(format!("cut-{}", u64::MAX))).unwrap();
    assert_eq!(folder.begin().unwrap(), cut + 1);
}

#[test]
fn files_that_no_run_has_written_stay() {
    let (_path, folder) = temporary();
    let [foreign, other] = ["cut-000001", "cut-7"].map(|name| folder.path().join(name));
    for place in [&foreign, &other] {
        fs::create_dir_all(place).unwrap();
        fs::write(place.join("thesis.tex"), "years").unwrap();
    }
    let cuts: Vec<u64> = (0..4).map(|salt| write::<f32>(&folder, salt, |_| 0)).collect();
    assert_eq!(cuts, [2, 3, 4, 5], "cut-7 is not the folder of a cut");
    let said = folder.keep(2, &[]).unwrap_err().to_string();
    assert!(said.contains("cut-000001") && said.contains("not empty"), "{said}");
    assert_eq!(folder.cuts().unwrap(), [4, 5], "all else is removed");
    for place in [foreign, other] {
        assert_eq!(fs::read(place.join("thesis.tex")).unwrap(), b"years");
    }
}

#[test]
fn parts_can_be_read_by_whom_the_folder_can() {
    use std::os::unix::fs::PermissionsExt;
    let (path, folder) = temporary();
    let cut = write::<f32>(&folder, 0, |_| 0);
    let mode = |name: &str| fs::metadata(folder.place(cut).join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("part-0.safetensors"), mode("manifest.json"));
    assert_eq!(mode("part-0.safetensors"), mode("") & 0o666);
    drop(path);
}

#[test]
fn an_open_checkpoint_outlives_its_files() {
    let (_path, folder) = temporary();
    let cut = write::<f32>(&folder, 9, |_| 0);
    let latest = folder.latest().unwrap().unwrap();
    folder.remove(cut).unwrap();
    check::<f32>(&latest.checkpoint, 9);
}

/// Changes a part of the newest of two checkpoints. Returns the damage that is reported.
fn damaged(change: impl FnOnce(&Path, &Path)) -> (PathBuf, Option<u64>, String) {
    let (_path, folder) = temporary();
    write::<f32>(&folder, 1, |_| 0);
    let cut = write::<f32>(&folder, 2, |key| (key % 2) as usize);
    let place = folder.place(cut);
    change(&place.join("part-1.safetensors"), &place.join("manifest.json"));
    let latest = folder.latest().expect("the earlier one is whole").expect("there are two");
    check::<f32>(&latest.checkpoint, 1);
    match latest.skipped.into_iter().next().expect("one was passed over") {
        CheckpointError::Damaged { path, offset, reason } => (path, offset, reason),
        error @ (CheckpointError::Version { .. } | _) => panic!("{error}"),
    }
}

fn edit(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn what_is_damaged_is_named_and_passed_over() {
    let flip = |at: u64| {
        damaged(move |part, _| {
            let mut bytes = fs::read(part).unwrap();
            bytes[at as usize] ^= 1;
            fs::write(part, bytes).unwrap();
        })
    };
    for at in [0, 9, 200, 5000, 20_000] {
        let (path, offset, reason) = flip(at);
        assert!(path.ends_with("part-1.safetensors") && offset == Some(0), "{reason}");
        assert!(reason.contains("sum of its block 0"), "{reason}");
    }
    let (_, offset, reason) = damaged(|part, _| {
        fs::File::options().write(true).open(part).unwrap().set_len(1000).unwrap();
    });
    assert!(offset == Some(1000) && reason.contains("it has 1000 bytes, and was written with"), "{reason}");
    let (path, _, reason) = damaged(|part, _| fs::remove_file(part).unwrap());
    assert!(path.ends_with("part-1.safetensors") && reason.contains("it is missing"), "{reason}");
    let (path, _, _) = damaged(|_, manifest| fs::write(manifest, "{").unwrap());
    assert!(path.ends_with("manifest.json"));
}

/// Opening a pipe would wait for a writer.
#[test]
fn pipes_in_the_place_of_files_are_refused() {
    for name in ["manifest.json", "part-1.safetensors"] {
        let (_path, folder) = temporary();
        let cut = write::<f32>(&folder, 2, |key| (key % 2) as usize);
        let file = folder.place(cut).join(name);
        fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        let said = folder.latest().map(|_| ()).map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains(name)), "{name}");
    }
}

#[test]
fn every_byte_of_a_manifest_counts() {
    let (_path, folder) = temporary();
    let cut = write::<f32>(&folder, 2, |key| (key % 2) as usize);
    let path = folder.place(cut).join("manifest.json");
    let text = fs::read(&path).unwrap();
    for at in 0..text.len() {
        for bit in [1, 4, 32] {
            let mut other = text.clone();
            other[at] ^= bit;
            fs::write(&path, other).unwrap();
            let refused = folder.open(cut).expect_err("it is another manifest");
            // No changed bit makes the manifest one of a later version, which would not be passed over for an
            // earlier checkpoint.
            assert!(matches!(refused, CheckpointError::Damaged { .. }), "byte {at}: {refused}");
        }
    }
    for end in 0..text.len() - 1 {
        fs::write(&path, &text[..end]).unwrap();
        let refused = folder.open(cut).expect_err("it is cut off");
        assert!(matches!(refused, CheckpointError::Damaged { .. }), "{end}: {refused}");
    }
    fs::write(&path, &text).unwrap();
    check::<f32>(&folder.open(cut).unwrap(), 2);
}

#[test]
fn a_manifest_in_the_place_of_another_is_named() {
    let (_path, folder) = temporary();
    let [first, second] = [1, 2].map(|salt| write::<f32>(&folder, salt, |_| 0));
    fs::remove_dir_all(folder.place(second)).unwrap();
    fs::rename(folder.place(first), folder.place(second)).unwrap();
    let refused = folder.latest().unwrap_err().to_string();
    assert!(refused.contains("it is the manifest of checkpoint 1 and not of 2; rename"), "{refused}");
    // The checkpoint is whole, so a run that passes it over does not remove it.
    let third = write::<f32>(&folder, 3, |_| 0);
    fs::rename(folder.place(third), folder.place(1)).unwrap();
    let edited = Manifest { cut: 1, ..Checkpoint::manifest_in(&folder.place(1)).unwrap() };
    fs::write(folder.place(1).join("manifest.json"), edited.to_file()).unwrap();
    let latest = folder.latest().unwrap().unwrap();
    assert_eq!((latest.damaged.len(), latest.skipped.len()), (0, 1));
    check::<f32>(&latest.checkpoint, 3);
    // A checkpoint may be copied elsewhere.
    let copy = folder.path().join("model");
    fs::rename(folder.place(second), &copy).unwrap();
    check::<f32>(&Checkpoint::open(&copy).unwrap(), 1);
}

#[test]
fn memory_of_rows_is_used_again() {
    let (_path, folder) = temporary();
    let mut rows = Rows::<f32>::new(&ranges());
    for salt in 0..3 {
        if salt == 0 {
            rows.make_room(4);
        } else {
            rows.clear();
        }
        assert_eq!(rows.keys(), 0);
        (0..KEYS).for_each(|key| rows.add(&[Key(key)], &value::<f32>(key, salt)));
        let cut = folder.begin().unwrap();
        let part = folder.write(cut, "part", &rows).unwrap();
        let run = json!({ "salt": salt });
        folder.commit(&Manifest::new(cut, ElementType::F32, ranges(), vec![part], run)).unwrap();
        check::<f32>(&folder.open(cut).unwrap(), salt);
    }
}

#[test]
fn numbers_are_given_once() {
    let (_path, folder) = temporary();
    let cut = folder.begin().unwrap();
    folder.remove(cut).unwrap();
    assert_eq!(folder.begin_after(cut).unwrap(), cut + 1);
    assert_eq!(folder.begin_after(cut).unwrap(), cut + 2);
    folder.remove(cut + 2).unwrap();
    assert_eq!(folder.begin_after(cut + 2).unwrap(), cut + 3, "an older one is there");
}

#[test]
fn a_manifest_that_does_not_fit_its_parts_is_named() {
    let of_manifest = |from: &'static str, to: &'static str| {
        let forge = move |path: &Path| {
            edit(path, from, to);
            let manifest: Manifest = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            fs::write(path, manifest.to_file()).unwrap();
        };
        damaged(move |_, manifest| forge(manifest)).2
    };
    for (from, to, reason) in [
        ("\"keys\": 700", "\"keys\": 701", "its parts have 742 of 743 keys"),
        ("\"len\": 3", "\"len\": 4", "word.values has type F32 and shape"),
        ("\"element\": \"f32\"", "\"element\": \"f64\"", "word.values has type F32"),
        ("\"element\": \"f32\"", "\"element\": \"f16\"", "f16"),
        ("\"word\"", "\"verb\"", "keys, and its manifest says"),
        ("part-1.safetensors", "../part-1.safetensors", "is not the name of a file"),
        ("part-1.safetensors", "part-0.safetensors", "is not the one that was written"),
    ] {
        let said = of_manifest(from, to);
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn every_key_is_in_one_part() {
    let of_keys = |keys: &[u64]| {
        let (_path, folder) = temporary();
        let cut = folder.begin().unwrap();
        let mut rows = Rows::<f32>::new(&ranges());
        keys.iter().for_each(|key| rows.add(&[Key(*key)], &value::<f32>(*key, 0)));
        let part = folder.write(cut, "part", &rows).unwrap();
        folder.commit(&Manifest::new(cut, ElementType::F32, ranges(), vec![part], json!(null))).unwrap();
        Checkpoint::open(&folder.place(cut)).map(drop).map_err(|error| error.to_string())
    };
    let all: Vec<u64> = (0..KEYS).collect();
    assert_eq!(of_keys(&all), Ok(()));
    let twice: Vec<u64> = (0..KEYS).map(|key| if key == 5 { 4 } else { key }).collect();
    assert!(of_keys(&twice).unwrap_err().contains("key 4 occurs twice"));
    assert!(of_keys(&all[1..]).unwrap_err().contains("its parts have 741 of 742 keys"));
}

#[test]
fn a_checkpoint_of_a_later_version_is_refused() {
    let (_path, folder) = temporary();
    write::<f32>(&folder, 1, |_| 0);
    let cut = write::<f32>(&folder, 2, |_| 0);
    let path = folder.place(cut).join("manifest.json");
    edit(&path, "intendant.checkpoint/1", "intendant.checkpoint/2");
    let text = fs::read_to_string(&path).unwrap();
    let digits = text.rfind("\"sum\": \"").expect("it has a sum") + 8;
    let zeroed = format!("{}{:016x}{}", &text[..digits], 0, &text[digits + 16..]);
    let sum = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(zeroed.as_bytes()));
    let sealed = zeroed.replace("\"sum\": \"0000000000000000", &format!("\"sum\": \"{sum}"));
    // One manifest has a sum. The other has none, as far as this version knows.
    for later in [sealed.clone(), sealed.replace("\"sum\":", "\"seal\":")] {
        fs::write(&path, later).unwrap();
        let error = folder.latest().expect_err("an older one in its place would lose work");
        assert!(matches!(error, CheckpointError::Version { .. }), "{error}");
        assert!(error.to_string().contains("has the schema 'intendant.checkpoint/2'"), "{error}");
    }
}

#[test]
fn what_cannot_be_written_is_said_and_leaves_no_part() {
    let (_path, folder) = temporary();
    let cut = folder.begin().unwrap();
    fs::create_dir(folder.place(cut).join("part-0.safetensors")).unwrap();
    let error =
        folder.write(cut, "part-0", &Rows::<f32>::new(&ranges())).expect_err("a folder is in its place");
    assert!(error.to_string().contains("cannot write"), "{error}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Folder::at(file.path()).unwrap().begin().expect_err("a file is in its place");
    assert!(error.to_string().contains("cannot create"), "{error}");
}

#[test]
fn numbers_of_the_run_keep_every_bit() {
    let (_path, folder) = temporary();
    let cut = folder.begin().unwrap();
    let numbers = [0.1 + 0.2, 1e-310, f64::MAX, 1.0 / 3.0, 123_456_789.123_456_78];
    let manifest = Manifest::new(cut, ElementType::F64, Vec::new(), Vec::new(), json!(numbers));
    folder.commit(&manifest).unwrap();
    assert_eq!(*folder.latest().unwrap().unwrap().checkpoint.manifest(), manifest);
}

#[test]
fn addresses_are_refused_and_become_no_folders() {
    for (address, reason) in [
        (
            "gs://bucket/run",
            "checkpoints lie in local folders, or in S3-compatible stores at s3://BUCKET/PREFIX",
        ),
        ("https://host/bucket", "checkpoints lie in local folders, or in S3-compatible stores"),
        #[cfg(not(feature = "s3"))]
        ("s3://bucket/run", "this program is built without object stores; build it with --features s3"),
    ] {
        let error = Folder::at(address).expect_err("it is not supported");
        assert!(error.to_string().starts_with(&format!("{address}: {reason}")), "{error}");
        let error = Checkpoint::open(Path::new(address)).expect_err("it is not supported");
        assert!(matches!(error, CheckpointError::Address { .. }), "{error}");
    }
    // A name that only looks like an address is a path.
    let temporary = tempfile::tempdir().unwrap();
    assert!(is_address(Path::new("s3://run")) && !is_address(Path::new("./s3://run")));
    assert!(!is_address(&temporary.path().join("s3://run")) && !is_address(Path::new("a/b")));
    let folder = Folder::at(temporary.path().join("s3://run")).unwrap();
    write::<f32>(&folder, 1, |_| 0);
    check::<f32>(&folder.latest().unwrap().unwrap().checkpoint, 1);
}
