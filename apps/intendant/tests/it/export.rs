//! `intendant checkpoint export`, and checkpoints of a training program.

use crate::checkpoint::{Checkpoints, KEYS, checkpoint, ended, len, odd, refused, value};
use intendant_core::Element;
use npyz::NpyFile;
use safetensors::SafeTensors;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The values of some keys, one after the other.
fn values<E: Element>(keys: std::ops::Range<u64>) -> Vec<E> {
    keys.flat_map(|key| value::<E>(key, 0.5)).collect()
}

fn export(from: &Path, to: &Path, flags: &str) -> Output {
    checkpoint("export", &[from, to], flags)
}

/// Names of the files in a folder.
fn files(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(name).collect();
    names.sort_unstable();
    names
}

#[test]
fn npy_files_have_a_row_per_key_in_order() {
    let checkpoints = Checkpoints::new();
    checkpoints.write::<f64>(0.5, odd);
    let out = checkpoints.beside("out");
    let (printed, said) = ended(&export(checkpoints.path(), &out, "--format npy"), 0);
    assert!(printed.starts_with(&format!("{KEYS} rows of ")) && printed.contains("no names"), "{printed}");
    assert_eq!(said, "");
    assert_eq!(files(&out), ["export.json", "topic.npy", "wide.npy", "word.npy"]);
    for (name, keys, len) in [("word", 0..50, 3), ("topic", 50..52, 1), ("wide", 52..KEYS, 5000)] {
        let bytes = fs::read(out.join(format!("{name}.npy"))).unwrap();
        let npy = NpyFile::new(&bytes[..]).unwrap();
        assert_eq!(npy.shape(), [keys.end - keys.start, len]);
        assert!(npy.into_vec::<f64>().unwrap() == values::<f64>(keys), "{name}");
    }
    // Another export replaces the folder as a whole; a folder with other files is not replaced.
    ended(&export(checkpoints.path(), &out, "--format npy --range topic --range word --elements 0..1"), 0);
    assert_eq!(files(&out), ["export.json", "topic.npy", "word.npy"]);
    let bytes = fs::read(out.join("word.npy")).unwrap();
    let firsts: Vec<f64> = (0..50).map(|key| value::<f64>(key, 0.5)[0]).collect();
    assert_eq!(NpyFile::new(&bytes[..]).unwrap().into_vec::<f64>().unwrap(), firsts);
    fs::write(out.join("mine"), "").unwrap();
    refused(
        &export(checkpoints.path(), &out, "--format npy"),
        2,
        &["OUT ", "it holds mine, which is not of"],
    );
    assert_eq!(files(&out), ["export.json", "mine", "topic.npy", "word.npy"]);
}

#[test]
fn a_safetensors_file_has_a_tensor_per_range() {
    let checkpoints = Checkpoints::new();
    let cut = checkpoints.write::<f32>(0.5, odd);
    let out = checkpoints.beside("out");
    ended(&export(&cut, &out, "--format safetensors"), 0);
    let file = fs::read(out.join("model.safetensors")).unwrap();
    let (_, header) = SafeTensors::read_metadata(&file).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap()["cut"], "1");
    let tensors = SafeTensors::deserialize(&file).unwrap();
    assert_eq!(tensors.len(), 3);
    for (name, keys, len) in [("word", 0..50, 3), ("topic", 50..52, 1), ("wide", 52..KEYS, 5000)] {
        let tensor = tensors.tensor(name).unwrap();
        assert_eq!(tensor.shape(), [(keys.end - keys.start) as usize, len]);
        let expected: Vec<u8> = values::<f32>(keys).iter().flat_map(|x| x.to_le_bytes()).collect();
        assert!(tensor.data() == expected, "{name}");
    }
}

/// Words and vectors of a text file, after a matching first line.
fn vectors(path: &Path) -> Vec<(String, Vec<f64>)> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let sizes: Vec<usize> = lines.next().unwrap().split(' ').map(|n| n.parse().unwrap()).collect();
    let vector = |line: &str| {
        let (word, numbers) = line.split_once(' ').unwrap();
        (word.to_owned(), numbers.split(' ').map(|x| x.parse().unwrap()).collect::<Vec<f64>>())
    };
    let vectors: Vec<_> = lines.map(vector).collect();
    assert_eq!(vectors.len(), sizes[0]);
    assert!(vectors.iter().all(|(_, vector)| vector.len() == sizes[1]));
    vectors
}

#[test]
fn word2vec_text_has_the_words_of_a_file_or_numbers_of_keys() {
    let checkpoints = Checkpoints::new();
    checkpoints.write::<f64>(0.5, odd);
    let (out, names) = (checkpoints.beside("out"), checkpoints.beside("names.txt"));
    ended(&export(checkpoints.path(), &out, "--format word2vec"), 0);
    assert_eq!(vectors(&out.join("topic.txt"))[1], ("51".to_owned(), value(51, 0.5)));
    assert_eq!(vectors(&out.join("wide.txt"))[299].1.len(), len(KEYS - 1));

    let lines: String = (0..50).map(|key| format!("name {key}\n")).collect();
    fs::write(&names, &lines).unwrap();
    let flags = |more: &str| format!("--format word2vec --names {} {more}", names.display());
    ended(&export(checkpoints.path(), &out, &flags("--range word --elements 1..3")), 0);
    assert_eq!(files(&out), ["export.json", "word.txt"]);
    for (key, (word, vector)) in (0..).zip(vectors(&out.join("word.txt"))) {
        assert_eq!((word, &vector[..]), (format!("name_{key}"), &value::<f64>(key, 0.5)[1..]));
    }
    for (flags, reason) in [
        (flags(""), "it has 50 lines for 352 keys"),
        (flags("--range verb"), "--range verb: the model has no such range; it has word, topic, wide"),
        (flags("--range word --elements 0..4"), "--elements 0..4: values of word have 3 elements"),
        (flags("--range word --elements 2..2"), "write FROM..TO"),
        (flags("").replace("word2vec", "npy"), "--names is for --format word2vec"),
        ("--format word2vec --names /no/such".to_owned(), "--names: cannot read /no/such"),
        ("--format csv".to_owned(), "csv"),
    ] {
        refused(&export(checkpoints.path(), &out, &flags), 2, &[reason]);
    }
    assert_eq!(files(&out), ["export.json", "word.txt"], "the earlier export is left");
}

#[test]
fn an_export_does_not_replace_what_it_reads_and_leaves_nothing_when_it_fails() {
    let checkpoints = Checkpoints::new();
    let cut = checkpoints.write::<f32>(0.5, odd);
    let (path, parent) = (checkpoints.path(), checkpoints.path().parent().unwrap());
    for out in [path, &cut, &path.join("out"), &cut.join("out"), parent] {
        refused(&export(path, out, "--format npy"), 2, &["OUT ", "DIR"]);
    }
    assert_eq!((files(path), files(parent)), (vec!["cut-000001".to_owned()], vec!["run".to_owned()]));
    fs::write(cut.join("part-0.safetensors"), "x").unwrap();
    refused(&export(path, &checkpoints.beside("out"), "--format npy"), 5, &["it has 1 bytes"]);
    assert_eq!(files(parent), ["run"]);
    // The newest whole checkpoint is used.
    fs::remove_dir_all(&cut).unwrap();
    checkpoints.write::<f32>(0.5, odd);
    let newest = checkpoints.write::<f32>(0.5, odd);
    fs::write(newest.join("part-0.safetensors"), "x").unwrap();
    let output = export(path, &checkpoints.beside("out"), "--format npy --range topic");
    let (printed, said) = ended(&output, 0);
    assert!(printed.contains("cut-000001 to "), "{printed}");
    assert!(said.contains("a newer checkpoint is passed over: "), "{said}");
}

/// The example of `intendant-train`, which `cargo test --workspace` builds.
fn regression(flags: &str) {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_intendant")).with_file_name("examples").join("regression");
    assert!(path.exists(), "build it first: cargo build -p intendant-train --examples");
    let mut command = Command::new(path);
    for name in ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "INTENDANT_LAUNCHED", "INTENDANT_TOKEN"]
    {
        command.env_remove(name);
    }
    let output = command.args(flags.split_whitespace()).arg("--no-progress").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn checkpoints_of_a_training_program_are_shown_compared_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (cuts, model, out) = (path("cuts"), path("model"), path("out"));
    let run = |epochs: u32, nodes: u32, more: &str| {
        regression(&format!(
            "--float f64 --workers 1 --epochs {epochs} --nodes {nodes} --checkpoint {} {more}",
            cuts.display()
        ));
    };
    run(2, 2, &format!("--checkpoint-seconds 100000 --export {}", model.display()));
    let shown = ended(&checkpoint("show", &[&cuts], "--json"), 0).0;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let run_of = &shown["checkpoints"][0]["run"];
    assert_eq!((&run_of["program"], &run_of["epochs"]), (&"regression".into(), &2.into()), "{shown}");
    assert_eq!((&run_of["config"]["nodes"], &run_of["under_way"]), (&2.into(), &Value::Null), "{shown}");
    let printed = ended(&checkpoint("show", &[&cuts], ""), 0).0;
    assert!(printed.contains("  trained   2 epochs\n") && printed.contains("--nodes 2"), "{printed}");
    ended(&checkpoint("verify", &[&cuts], ""), 0);

    // The values equal those that the program itself exports.
    ended(&export(&cuts, &out, "--format word2vec"), 0);
    let exported: Value = serde_json::from_slice(&fs::read(out.join("export.json")).unwrap()).unwrap();
    assert_eq!(exported["program"], "regression");
    let mut lines: Vec<String> = Vec::new();
    for range in ["weight", "constant"] {
        let vectors = vectors(&out.join(format!("{range}.txt")));
        lines.extend(vectors.iter().map(|(key, vector)| format!("{range} {key} {vector:?}")));
    }
    let text = fs::read_to_string(model.join("model.txt")).unwrap();
    let mut expected: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    expected.sort_unstable();
    assert!(lines == expected, "{:?} is not {:?}", lines.first(), expected.first());

    // Another epoch, on one node.
    run(3, 1, "--resume --checkpoint-seconds 100000");
    let (printed, _) = ended(&checkpoint("diff", &[&cuts.join("cut-000001"), &cuts], ""), 1);
    for line in
        ["trained: 2 epochs and 3 epochs\n", "--epochs: 2 and 3\n", "--nodes: 2 and 1\n", "weight: values of"]
    {
        assert!(printed.contains(line), "'{line}' is not in {printed}");
    }
    let copy = path("copy");
    fs::create_dir(&copy).unwrap();
    for file in files(&cuts.join("cut-000001")) {
        fs::copy(cuts.join("cut-000001").join(&file), copy.join(&file)).unwrap();
    }
    let (printed, _) = ended(&checkpoint("diff", &[&cuts.join("cut-000001"), &copy], ""), 0);
    assert_eq!(printed, "weight: no value of 1000 differs\nconstant: no value of 1 differs\n");
}
