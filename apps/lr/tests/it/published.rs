//! Real data that is not part of the project. An environment variable names its folder. The reference numbers
//! come from liblinear.

use crate::train::LR;
use serde_json::Value;
use std::path::PathBuf;

/// The training and the test file of a data set, if they exist.
fn files(name: &str) -> Option<[String; 2]> {
    let root = std::env::var_os("INTENDANT_TEST_DATA").map(PathBuf::from);
    let file = |split: &str| {
        let file = root.as_ref()?.join(format!("lr/{name}.{split}.libsvm.zst"));
        file.is_file().then(|| file.to_str().unwrap().to_owned())
    };
    let found = file("train").zip(file("test")).map(|(train, test)| [train, test]);
    if found.is_none() {
        eprintln!("skipped: no lr/{name}; set INTENDANT_TEST_DATA to the folder with the data sets");
    }
    found
}

fn tested(report: &Value, name: &str) -> f64 {
    report["test"][name].as_f64().unwrap()
}

#[test]
fn a9a_reaches_the_optimum() {
    let Some([train, test]) = files("a9a") else { return };
    for (c, optimum) in [("1", 10_558.72), ("0.1", 10_826.17)] {
        for technique in ["classic", "ssp", "adaptive"] {
            for nodes in ["1", "2"] {
                let data = ["--data", &train, "--test", &test, "--c", c];
                let how =
                    ["--epochs", "200", "--valid-every", "0", "--technique", technique, "--nodes", nodes];
                let report = LR.report(&[&data[..], &how].concat());
                let (objective, auc) = (tested(&report, "objective"), tested(&report, "auc"));
                eprintln!("C = {c}, {technique}, {nodes}: {}", report["test"]);
                assert!(objective <= 1.001 * optimum, "C = {c}, {technique}, {nodes} nodes: {objective}");
                // No objective is lower than the optimum.
                assert!(objective >= 0.9999 * optimum, "C = {c}, {technique}, {nodes} nodes: {objective}");
                assert!((auc - 0.902).abs() < 0.001, "C = {c}, {technique}, {nodes} nodes: {auc}");
            }
        }
    }
}

#[test]
fn enron_spam_is_told_apart() {
    let Some([train, test]) = files("enron_spam") else { return };
    let data = ["--data", &train, "--test", &test, "--transform", "log1p", "--normalize", "l2", "--c", "10"];
    let how = ["--lr", "0.5", "--epochs", "20", "--valid-every", "0", "--technique", "adaptive"];
    let report = LR.report(&[&data[..], &how].concat());
    let (accuracy, auc) = (tested(&report, "accuracy"), tested(&report, "auc"));
    eprintln!("{}", report["test"]);
    assert!(accuracy >= 0.985, "{accuracy}");
    assert!(auc >= 0.998, "{auc}");
}
