//! Exported models: their content and their predictions.

use crate::train::LR;
use lr::data::slot;
use std::fs;
use std::path::{Path, PathBuf};

fn run(flags: &[&str]) -> String {
    let output = LR.output(flags);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{flags:?}: {said}");
    said
}

fn refused(flags: &[&str], expected: &str) {
    let output = LR.output(flags);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
    assert!(said.contains(expected), "{flags:?}: {said}");
}

fn numbers(path: &Path) -> Vec<f64> {
    fs::read_to_string(path).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

fn files(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(name).collect();
    names.sort_unstable();
    names
}

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.text(name)
    }
}

/// Rows whose label is mostly the presence of feature 1.
fn libsvm(rows: u32) -> String {
    let row = |i: u32| {
        let label = if i.is_multiple_of(2) ^ i.is_multiple_of(11) { 1 } else { -1 };
        let first = if i.is_multiple_of(2) { " 1:1" } else { "" };
        format!("{label}{first} {}:{}\n", 2 + i % 5, 1.0 + f64::from(i % 3) / 2.0)
    };
    (0..rows).map(row).collect()
}

#[test]
fn an_export_has_all_weights_and_predicts_as_the_run_did() {
    for (float, intercept) in [("f32", "false"), ("f64", "true")] {
        let folder = Folder::new();
        let (train, test) = (folder.write("train", &libsvm(300)), folder.write("test", &libsvm(50)));
        let (model, predicted, again) = (folder.text("model"), folder.text("p"), folder.text("q"));
        let intercept_flag = format!("--intercept={intercept}");
        let common = ["--test", &test, "-q"];
        let flags =
            ["--data", &train, "--features", "9", "--float", float, &intercept_flag, "--epochs", "20"];
        run(&[&common[..], &flags, &["--export", &model, "--predict", &predicted]].concat());
        let model_path = folder.path("model");
        let mut expected = vec!["export.json", "intercept.npy", "model.toml", "weights.npy", "weights.tsv"];
        expected.retain(|name| intercept == "true" || *name != "intercept.npy");
        assert_eq!(files(&model_path), expected);

        let bytes = fs::read(model_path.join("weights.npy")).unwrap();
        let npy = npyz::NpyFile::new(&bytes[..]).unwrap();
        assert_eq!(npy.shape(), [9, 1]);
        let weights: Vec<f64> = if float == "f32" {
            npy.into_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
        } else {
            npy.into_vec::<f64>().unwrap()
        };
        assert!(weights[0] > 0.5, "{weights:?}");
        assert_eq!(weights[6..], [0.0; 3], "features without rows");
        let text = fs::read_to_string(model_path.join("weights.tsv")).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("feature\tweight\tnames"));
        let mut constant = 0.0;
        if intercept == "true" {
            constant = lines.next().unwrap().strip_prefix("intercept\t").unwrap().trim().parse().unwrap();
            assert_ne!(constant, 0.0);
        }
        let mut listed = [0.0; 9];
        for line in lines {
            let fields: Vec<&str> = line.split('\t').collect();
            let (number, weight): (usize, f64) = (fields[0].parse().unwrap(), fields[1].parse().unwrap());
            assert_ne!(weight, 0.0);
            listed[number - 1] = weight;
        }
        assert!(weights.iter().zip(listed).all(|(a, b)| (a - b).abs() < 1e-6), "{weights:?} and {listed:?}");

        // Computed by hand, from the exported weights.
        let probabilities = numbers(&folder.path("p"));
        assert_eq!(probabilities.len(), 50);
        for (line, probability) in libsvm(50).lines().zip(&probabilities) {
            let terms = line.split(' ').skip(1).map(|word| {
                let (index, value) = word.split_once(':').unwrap();
                listed[index.parse::<usize>().unwrap() - 1] * value.parse::<f64>().unwrap()
            });
            let score = constant + terms.sum::<f64>();
            assert!((1.0 / (1.0 + (-score).exp()) - probability).abs() < 1e-5, "{line}");
        }
        // Predictions from the exported model, without training data, also with more nodes and another
        // optimiser.
        for more in [
            &["--technique", "single"][..],
            &["--optimizer", "adagrad"],
            &["--technique", "classic", "--nodes", "2"],
        ] {
            let flags = ["--model", &model, "--epochs", "0", "--float", float, "--predict", &again];
            run(&[&common[..], &flags, more].concat());
            let found = numbers(&folder.path("q"));
            assert_eq!(found.len(), 50);
            for (a, b) in found.iter().zip(&probabilities) {
                assert!((a - b).abs() < 1e-5, "{more:?}: {a} and {b}");
            }
        }
        // A model continues to train on other rows.
        let flags = ["--model", &model, "--data", &test, "--epochs", "2", "--float", float];
        run(&[&common[..], &flags].concat());
    }
}

#[test]
fn a_checkpoint_predicts_as_the_run_did() {
    let folder = Folder::new();
    let (train, test) = (folder.write("train", &libsvm(300)), folder.write("test", &libsvm(50)));
    let (cuts, predicted, again) = (folder.text("cuts"), folder.text("p"), folder.text("q"));
    let common = ["--data", &train, "--test", &test, "--technique", "single", "-q"];
    run(&[&common[..], &["--epochs", "5", "--checkpoint", &cuts, "--predict", &predicted]].concat());
    run(&[&common[..], &["--epochs", "0", "--from", &cuts, "--predict", &again]].concat());
    assert_eq!(numbers(&folder.path("p")), numbers(&folder.path("q")));
}

/// A model from a table reads data in the same way as its training run.
#[test]
fn a_table_s_model_knows_how_to_read_tables() {
    let folder = Folder::new();
    let row = |i: u32| format!("{},{},{}\n", ["red", "green"][(i % 2) as usize], i % 7, i % 2);
    let rows = |n| (0..n).map(row).collect::<String>();
    let train = folder.write("train.csv", &format!("colour,size,y\n{}", rows(200)));
    let (model, predicted, again) = (folder.text("model"), folder.text("p"), folder.text("q"));
    let test = folder.write("test.csv", &format!("colour,size,y\n{}", rows(20)));
    let common = ["--test", &test, "--technique", "single", "-q"];
    let how = ["--hash-bits", "10", "--categorical", "size", "--normalize", "l2", "--transform", "log1p"];
    let files = ["--data", &train, "--label", "y", "--export", &model, "--predict", &predicted];
    run(&[&common[..], &files, &how].concat());
    let text = fs::read_to_string(folder.path("model").join("weights.tsv")).unwrap();
    assert!(text.contains(&format!("\n{}\t", slot("colour=red", 10))), "{text}");
    assert!(text.contains("colour=red") && text.contains("colour=green"), "{text}");
    let report =
        LR.report(&[&common[..4], &["--model", &model, "--epochs", "0", "--predict", &again]].concat());
    let tested = report["test"].as_object().unwrap();
    assert!(tested.contains_key("auc") && !tested.contains_key("objective"), "{tested:?}");
    let (first, second) = (numbers(&folder.path("p")), numbers(&folder.path("q")));
    assert!(first.iter().zip(&second).all(|(a, b)| (a - b).abs() < 1e-5), "{first:?} and {second:?}");
    for (i, probability) in (0..).zip(first) {
        assert_eq!(probability > 0.5, i % 2 == 1, "row {i}: {probability}");
    }
    let flags = [&common[..], &["--model", &model]].concat();
    let with =
        |more: &[&str], expected: &str| refused(&[&flags[..], &["--epochs", "0"], more].concat(), expected);
    with(&["--hash-bits", "11"], "--hash-bits is 11 here and 10 in the model of --model: leave it out");
    with(&["--normalize", "none"], "--normalize is none here and l2 in the model");
    with(&["--categorical", "colour"], "--categorical is colour here and size in the model");
    with(&["--intercept"], "--intercept is true here and false in the model");
    with(&["--format", "libsvm"], "--format is libsvm here and csv in the model");
    let nothing = "--model without --data: there is nothing to train on; add --data, or --epochs 0";
    refused(&flags, nothing);
    with(
        &["--predict", folder.path("model").join("weights.tsv").to_str().unwrap()],
        "--model reads this file",
    );
    run(&[&flags[..], &["--epochs", "0", "--hash-bits", "10"]].concat());
}

#[test]
fn models_that_are_damaged_are_refused() {
    let folder = Folder::new();
    let (train, model) = (folder.write("train", &libsvm(100)), folder.text("model"));
    run(&["--data", &train, "--technique", "single", "-q", "--export", &model]);
    let path = folder.path("model");
    let settings = fs::read_to_string(path.join("model.toml")).unwrap();
    let flags = ["--model", &model, "--data", &train, "--epochs", "0", "--technique", "single", "-q"];
    let with = |file: &str, text: &str, expected: &str| {
        let before = fs::read_to_string(path.join(file)).unwrap();
        fs::write(path.join(file), text).unwrap();
        refused(&flags, expected);
        fs::write(path.join(file), before).unwrap();
    };
    with(
        "model.toml",
        &settings.replace("intendant.lr/1", "intendant.lr/2"),
        "the schema is 'intendant.lr/2'; this version reads",
    );
    with("model.toml", "x = ", "model.toml: ");
    let csv = settings.replace("libsvm", "csv");
    with("model.toml", &csv, "hash_bits is missing");
    for bits in [0, 32, 33, 255] {
        let expected = format!("hash_bits is {bits}; expected a number from 1 to 31");
        with("model.toml", &format!("hash_bits = {bits}\n{csv}"), &expected);
    }
    for features in [0, u32::MAX] {
        let expected = format!("features is {features}; expected a number from 1 to 4294967293");
        with("model.toml", &settings.replace("features = 6", &format!("features = {features}")), &expected);
    }
    with("weights.tsv", "1\tx\n", "weights.tsv, line 1: the weight is 'x', which is no finite number");
    with("weights.tsv", "1\n", "weights.tsv, line 1: expected a feature and its weight, separated by a tab");
    with("weights.tsv", "0\t1\n", "the feature is '0'; expected a number from 1 to 6");
    with("weights.tsv", "7\t1\n", "the feature is '7'; expected a number from 1 to 6");
    with("weights.tsv", "2\t1\n2\t1\n", "line 2: feature 2 is not larger than the one before it");
    run(&flags);
}

#[test]
fn predictions_replace_a_file_as_a_whole() {
    let folder = Folder::new();
    let test = folder.write("test", &libsvm(30));
    let predicted = folder.write("p", "before\n");
    let flags = ["--data", &test, "--test", "0.5", "--technique", "single", "-q", "--epochs", "1"];
    run(&[&flags[..], &["--predict", &predicted]].concat());
    let numbers = numbers(&folder.path("p"));
    assert!(
        (5..25).contains(&numbers.len()) && numbers.iter().all(|p| (0.0..=1.0).contains(p)),
        "{numbers:?}"
    );
    assert_eq!(files(folder.0.path()), ["p", "test"], "nothing is left beside it");
    refused(
        &[&flags[..], &["--predict", folder.0.path().to_str().unwrap()]].concat(),
        "it is a folder; name a file",
    );
}
