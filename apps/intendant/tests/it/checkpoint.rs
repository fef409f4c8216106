//! `intendant checkpoint` on checkpoints of several parts, whole and damaged ones, and on checkpoints of a
//! training program.

use crate::command::{intendant, text};
use intendant_checkpoint::{Checkpoint, Folder, Manifest, Part, Range, Rows};
use intendant_core::{Element, Key};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// Words with vectors of 3 numbers; 2 topics; 300 values, of which a part has several blocks.
fn ranges() -> Vec<Range> {
    let range = |name: &str, keys, len| Range { name: name.to_owned(), keys, len };
    vec![range("word", 50, 3), range("topic", 2, 1), range("wide", 300, 5000)]
}

pub(crate) const KEYS: u64 = 352;

pub(crate) fn len(key: u64) -> usize {
    [3, 1, 5000][usize::from(key >= 50) + usize::from(key >= 52)]
}

pub(crate) fn value<E: Element>(key: u64, salt: f64) -> Vec<E> {
    (0..len(key)).map(|at| E::from_f64(key as f64 * 0.37 + at as f64 / 3.0 + salt)).collect()
}

/// A folder with checkpoints.
pub(crate) struct Checkpoints {
    _temporary: TempDir,
    folder: Folder,
}

impl Checkpoints {
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::at(temporary.path().join("run")).unwrap();
        Self { _temporary: temporary, folder }
    }

    /// Writes a checkpoint whose key `k` is in part `part_of(k)`.
    pub(crate) fn write<E: Element>(&self, salt: f64, part_of: impl Fn(u64) -> usize) -> PathBuf {
        let cut = self.folder.begin().unwrap();
        let mut parts: Vec<Rows<E>> = (0..2).map(|_| Rows::new(&ranges())).collect();
        for key in (0..KEYS).rev() {
            parts[part_of(key)].add(&[Key(key)], &value::<E>(key, salt));
        }
        let write =
            |(at, rows): (usize, &Rows<E>)| self.folder.write(cut, &format!("part-{at}"), rows).unwrap();
        let parts: Vec<Part> = parts.iter().enumerate().map(write).collect();
        self.folder.commit(&Manifest::new(cut, E::TYPE, ranges(), parts, json!(null))).unwrap();
        self.folder.place(cut)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A path beside the folder.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.path().with_file_name(name)
    }
}

pub(crate) fn odd(key: u64) -> usize {
    usize::from(key % 2 == 1)
}

pub(crate) fn checkpoint(command: &str, paths: &[&Path], flags: &str) -> Output {
    intendant().args(["checkpoint", command]).args(paths).args(flags.split_whitespace()).output().unwrap()
}

/// Checks the exit code; returns standard output and standard error.
#[track_caller]
pub(crate) fn ended(output: &Output, code: i32) -> (String, String) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    (text(&output.stdout), text(&output.stderr))
}

/// Checks that a command fails with `code` and reports each of `reasons`; returns its standard output.
#[track_caller]
pub(crate) fn refused(output: &Output, code: i32, reasons: &[&str]) -> String {
    let (printed, said) = ended(output, code);
    for reason in reasons {
        assert!(said.contains(reason), "'{reason}' is not in: {said}");
    }
    printed
}

fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

fn cut_off(path: &Path, bytes: u64) {
    File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

fn make_future(place: &Path) {
    let path = place.join("manifest.json");
    let manifest = fs::read_to_string(&path).unwrap();
    // A sum that this version knows would reveal that no program wrote this manifest.
    let later =
        manifest.replace("intendant.checkpoint/1", "intendant.checkpoint/9").replace("\"sum\"", "\"seal\"");
    fs::write(&path, later).unwrap();
}

#[test]
fn verify_reads_all_checkpoints_and_names_all_damage() {
    let checkpoints = Checkpoints::new();
    let places = [0.0, 1.0, 2.0].map(|salt| checkpoints.write::<f32>(salt, odd));
    let (printed, said) = ended(&checkpoint("verify", &[checkpoints.path()], ""), 0);
    assert!(printed.contains("3 checkpoints verified: ") && printed.contains(" GB/s"), "{printed}");
    assert_eq!((printed.matches(": whole, 352 keys, ").count(), said.as_str()), (3, ""));

    let block = Part::BLOCK as u64;
    let part = |place: usize, part: usize| places[place].join(format!("part-{part}.safetensors"));
    assert!(fs::metadata(part(0, 0)).unwrap().len() < block, "one block");
    flip(&part(0, 1), 0);
    cut_off(&part(0, 0), 1000);
    fs::remove_file(part(2, 0)).unwrap();
    let output = checkpoint("verify", &[checkpoints.path()], "");
    let reasons = [
        format!("{} is damaged at byte 1000: it has 1000 bytes, and was written with", part(0, 0).display()),
        format!("{} is damaged at byte 0: the sum of its block 0 is not", part(0, 1).display()),
        format!("{} is damaged: it is missing", part(2, 0).display()),
    ];
    let printed = refused(&output, 5, &reasons.each_ref().map(String::as_str));
    assert!(printed.contains(&format!("{}: whole", places[1].display())), "{printed}");
    assert_eq!(printed.matches(": DAMAGED").count(), 2, "{printed}");
    assert!(!printed.contains("verified"), "{printed}");
    ended(&checkpoint("verify", &[&places[1]], ""), 0);
    refused(&checkpoint("verify", &[&places[0]], ""), 5, &[&reasons[0]]);
}

#[test]
fn verify_names_the_block_that_is_damaged() {
    let checkpoints = Checkpoints::new();
    let place = checkpoints.write::<f64>(0.0, |_| 0);
    let part = place.join("part-0.safetensors");
    flip(&part, 2 * Part::BLOCK as u64 + 9);
    let reason = format!("{} is damaged at byte 8388608: the sum of its block 2 is not", part.display());
    refused(&checkpoint("verify", &[checkpoints.path()], ""), 5, &[&reason]);
}

#[test]
fn a_cut_without_manifest_and_one_of_a_later_version_are_told_apart_from_damage() {
    let checkpoints = Checkpoints::new();
    let [first, second] = [0.0, 1.0].map(|salt| checkpoints.write::<f32>(salt, odd));
    fs::remove_file(second.join("manifest.json")).unwrap();
    for command in ["verify", "show"] {
        let (printed, _) = ended(&checkpoint(command, &[checkpoints.path()], ""), 0);
        let line = format!("{}: not a checkpoint, it has no manifest.json", second.display());
        assert!(printed.contains(&line), "{printed}");
        refused(
            &checkpoint(command, &[&second], ""),
            2,
            &["it has no manifest.json, so it is no checkpoint"],
        );
    }
    make_future(&first);
    let reason = "has the schema 'intendant.checkpoint/9', and this version reads intendant.checkpoint/1";
    refused(&checkpoint("verify", &[checkpoints.path()], ""), 2, &[reason]);
    let printed = refused(&checkpoint("show", &[checkpoints.path()], ""), 2, &[reason]);
    assert!(printed.contains("--resume refuses: a checkpoint is of a later version"), "{printed}");
    refused(&checkpoint("diff", &[&first, &first], ""), 2, &[reason]);
    // Damage is the more serious problem.
    let third = checkpoints.write::<f32>(0.0, odd);
    flip(&third.join("part-0.safetensors"), 77);
    refused(&checkpoint("verify", &[checkpoints.path()], ""), 5, &[reason, "part-0.safetensors is damaged"]);
    fs::remove_file(first.join("manifest.json")).unwrap();
    fs::remove_file(third.join("manifest.json")).unwrap();
    refused(&checkpoint("verify", &[checkpoints.path()], ""), 2, &["no cut was finished"]);
    let printed = ended(&checkpoint("show", &[checkpoints.path()], ""), 0).0;
    assert!(printed.contains("--resume starts a new run"), "{printed}");
}

#[test]
fn what_is_no_checkpoint_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let (nothing, out) = (folder.path().join("nothing"), folder.path().join("out"));
    for (path, reason) in [
        (nothing.as_path(), "there is no such folder"),
        (folder.path(), "there is no checkpoint"),
        (file.path(), "it is no folder"),
        (Path::new("gs://bucket/run"), "checkpoints lie in local folders, or in S3-compatible stores"),
    ] {
        for (command, paths, flags) in [
            ("show", &[path][..], ""),
            ("verify", &[path], ""),
            ("diff", &[path, path], ""),
            ("export", &[path, &out], "--format npy"),
        ] {
            refused(&checkpoint(command, paths, flags), 2, &[reason, &path.display().to_string()]);
        }
    }
    refused(&intendant().args(["checkpoint", "shew", "x"]).output().unwrap(), 2, &["shew"]);
}

#[test]
fn show_says_what_checkpoints_hold_and_which_one_a_run_would_use() {
    let checkpoints = Checkpoints::new();
    let places = [0.0, 1.0].map(|salt| checkpoints.write::<f32>(salt, odd));
    let shown = |code| -> Value {
        let (printed, _) = ended(&checkpoint("show", &[checkpoints.path()], "--json"), code);
        serde_json::from_str(&printed).unwrap()
    };
    let json = shown(0);
    assert_eq!((&json["schema"], &json["resume"]), (&json!("intendant.checkpoints/1"), &json!(2)));
    let newest = &json["checkpoints"][1];
    assert_eq!(newest["path"], places[1].display().to_string());
    assert_eq!(newest["ranges"][0], json!({ "name": "word", "keys": 50, "len": 3 }));
    let facts = ["cut", "format", "element", "keys", "run", "problems"].map(|name| &newest[name]);
    let expected =
        [json!(2), json!("intendant.checkpoint/1"), json!("f32"), json!(352), Value::Null, json!([])];
    assert_eq!(facts, expected.each_ref());
    let bytes = fs::metadata(places[1].join("part-1.safetensors")).unwrap().len();
    let part = &newest["parts"][1];
    assert_eq!((&part["bytes"], &part["keys"]), (&json!(bytes), &json!(176)));
    let printed = ended(&checkpoint("show", &[checkpoints.path()], ""), 0).0;
    for line in
        ["  model     352 keys, elements f32", "    word: 50 keys of length 3", "--resume uses cut 2 if"]
    {
        assert!(printed.contains(line), "{printed}");
    }
    let sum = part["blocks"][0].as_str().unwrap();
    assert!(
        printed.contains(&format!("part-1.safetensors: {bytes} bytes, 176 keys, XXH3 {sum}")),
        "{printed}"
    );

    assert!(newest.get("best").is_none() && !printed.contains("best"), "nothing was compared");
    for place in &places {
        let manifest = Manifest { best: Some(1), ..Checkpoint::manifest_in(place).unwrap() };
        fs::write(place.join("manifest.json"), manifest.to_file()).unwrap();
    }
    let json = shown(0);
    assert_eq!([0, 1].map(|at| json["checkpoints"][at]["best"].as_u64()), [Some(1), Some(1)]);
    let printed = ended(&checkpoint("show", &[checkpoints.path()], ""), 0).0;
    for line in ["  best      it has the best model\n", "  best      the best model so far is in cut 1\n"] {
        assert!(printed.contains(line), "{printed}");
    }

    let alone = ended(&checkpoint("show", &[&places[1]], ""), 0).0;
    assert!(alone.contains("so far is in cut 1, which is not here\n"), "{alone}");

    cut_off(&places[1].join("part-1.safetensors"), 10);
    let json = shown(5);
    assert_eq!(json["resume"], 1);
    assert!(json["checkpoints"][1]["problems"][0].as_str().unwrap().contains("it has 10 bytes"), "{json}");
    fs::write(places[0].join("manifest.json"), "{").unwrap();
    let json = shown(5);
    assert_eq!((&json["resume"], json["checkpoints"][0].get("cut")), (&Value::Null, None));
}

#[test]
fn diff_finds_the_largest_differences_whatever_the_division_into_parts() {
    let checkpoints = Checkpoints::new();
    let [one, other] = [odd, |key| usize::from(key < 100)].map(|parts| checkpoints.write::<f64>(0.0, parts));
    let (printed, _) = ended(&checkpoint("diff", &[&one, &other], ""), 0);
    assert_eq!(
        printed,
        "word: no value of 50 differs\ntopic: no value of 2 differs\nwide: no value of 300 differs\n"
    );

    let changed = Checkpoints::new();
    let cut = changed.folder.begin().unwrap();
    let mut rows = Rows::<f64>::new(&ranges());
    for key in 0..KEYS {
        let mut value = value::<f64>(key, 0.0);
        match key {
            7 => value[2] += 0.5,
            8 => value[1] *= 3.0,
            51 => value[0] = f64::NAN,
            _ => {}
        }
        rows.add(&[Key(key)], &value);
    }
    let part = changed.folder.write(cut, "part", &rows).unwrap();
    changed.folder.commit(&Manifest::new(cut, f64::TYPE, ranges(), vec![part], json!(null))).unwrap();
    let (printed, _) = ended(&checkpoint("diff", &[&one, changed.path()], ""), 1);
    for line in [
        "word: values of 2 of 50 keys differ\n",
        "largest absolute difference 6.58666666666666",
        "e0 at key 8, element 1 (3.2933",
        "largest relative difference 6.66666666666666",
        "e-1 at key 8, element 1 (3.2933",
        "topic: values of 1 of 2 keys differ\n",
        "largest absolute difference inf at key 51, element 0 (18.87 and NaN)",
        "wide: no value of 300 differs\n",
    ] {
        assert!(printed.contains(line), "'{line}' is not in {printed}");
    }

    // In single precision, values are rounded.
    let single = checkpoints.write::<f32>(0.0, odd);
    let (printed, _) = ended(&checkpoint("diff", &[&one, &single], ""), 1);
    assert!(printed.starts_with("elements: f64 and f32\nword: values of "), "{printed}");
    flip(&one.join("part-1.safetensors"), 5000);
    refused(&checkpoint("diff", &[&other, &one], ""), 5, &["part-1.safetensors is damaged at byte 0"]);
}

#[test]
fn diff_compares_models_with_other_ranges() {
    let write = |ranges: Vec<Range>| {
        let checkpoints = Checkpoints::new();
        let cut = checkpoints.folder.begin().unwrap();
        let mut rows = Rows::<f32>::new(&ranges);
        let mut key = 0;
        for range in &ranges {
            for at in 0..range.keys {
                rows.add(&[Key(key)], &vec![at as f32; range.len]);
                key += 1;
            }
        }
        let part = checkpoints.folder.write(cut, "part", &rows).unwrap();
        checkpoints.folder.commit(&Manifest::new(cut, f32::TYPE, ranges, vec![part], json!(null))).unwrap();
        checkpoints
    };
    let range = |name: &str, keys, len| Range { name: name.to_owned(), keys, len };
    let a = write(vec![range("one", 3, 2), range("shared", 5, 1)]);
    let b = write(vec![range("shared", 5, 1), range("one", 4, 2), range("more", 1, 1)]);
    let (printed, _) = ended(&checkpoint("diff", &[a.path(), b.path()], "--values"), 1);
    assert_eq!(
        printed,
        "range one: 3 keys of length 2 and 4 keys of length 2\nrange more: absent and 1 key of length 1\n\
         shared: no value of 5 differs\n"
    );
}
