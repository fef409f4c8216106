//! Several node processes: their common report, and what they refuse.

use crate::train::{LR, QUALITY};
use intendant_apptest::technique::{self, Technique};
use intendant_apptest::{finish, ranks, schema, start};
use serde_json::Value;
use std::fs;
use std::process::Child;

/// Each technique that is no ablation, with a hot key.
#[test]
fn quality_is_that_of_one_process() {
    let flags = ["--data", "builtin:sparse:5000x500x10", "--epochs", "10", "--intercept"];
    let run = |more: &[&str]| LR.report(&[&flags[..], more].concat());
    let of = |report: &Value, name: &str| report["test"][name].as_f64().unwrap();
    let single = run(&["--technique", "single"]);
    let is_own = |technique: &Technique| !technique.acts_on_intents || technique.name == "adaptive";
    for technique in technique::all().into_iter().filter(is_own).map(|technique| technique.name) {
        let technique = &*technique;
        let report = run(&["--technique", technique, "--nodes", "2", "--workers", "2"]);
        schema::check(&report, &QUALITY, 1);
        assert_eq!(report["data_digest"], single["data_digest"], "{technique}");
        for (name, tolerance) in [("objective", 0.03), ("log_loss", 0.03), ("auc", 0.03)] {
            let (here, alone) = (of(&report, name), of(&single, name));
            assert!((here / alone - 1.0).abs() < tolerance, "{technique}, {name}: {here}, not {alone}");
        }
        assert_eq!(of(&report, "observed"), of(&single, "observed"));
        for epoch in report["epochs"].as_array().unwrap() {
            assert_eq!(epoch["examples"], 5000);
        }
    }
}

#[test]
fn more_workers_than_batches_and_features_are_no_problem() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows");
    fs::write(&file, "1 1:1\n0 2:1\n1 1:1 3:1\n").unwrap();
    let data = ["--data", file.to_str().unwrap(), "--test", file.to_str().unwrap()];
    for technique in ["classic", "adaptive"] {
        let cluster = ["--technique", technique, "--nodes", "2", "--workers", "4", "--epochs", "3"];
        let report = LR.report(&[&data[..], &cluster].concat());
        assert_eq!(report["epochs"][2]["examples"], 3);
    }
}

#[test]
fn nodes_with_different_data_refuse_each_other() {
    let data = ["builtin:sparse:100x30x5", "builtin:sparse:100x30x6"];
    let commands = data.map(|data| LR.command(&["--data", data, "--epochs", "3"])).into();
    let children: Vec<Child> = ranks(commands).into_iter().map(start).collect();
    for output in children.into_iter().map(finish) {
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("were started differently: digest of the data is"), "{said}");
    }
}

/// Virtual time, real arithmetic. Epochs are shorter than the time between two synchronisations of replicas,
/// so that the steps of all nodes add up: they must be small.
#[test]
fn a_simulated_cluster_learns() {
    let task = ["--data", "builtin:sparse:3000x300x10", "--lr", "0.02", "--epochs", "5"];
    let flags = [&task[..], &["--nodes", "4", "--workers", "2"]].concat();
    let run = |more: &[&str]| LR.report(&[&flags[..], &["--simulate"], more].concat());
    let single = LR.report(&[&task[..], &["--technique", "single"]].concat());
    let loss = |report: &Value| report["test"]["log_loss"].as_f64().unwrap();
    for technique in ["classic", "ssp", "adaptive"] {
        let (report, again) = (run(&["--technique", technique]), run(&["--technique", technique]));
        schema::check(&report, &QUALITY, 1);
        assert_eq!(report, again, "the same run has the same report");
        assert_eq!(report["data_digest"], single["data_digest"]);
        assert!(
            (loss(&report) / loss(&single) - 1.0).abs() < 0.1,
            "{technique}: {}, not {}",
            loss(&report),
            loss(&single)
        );
    }
    // Predictions and exports come from the simulated model.
    let folder = tempfile::tempdir().unwrap();
    let (model, predicted) = (folder.path().join("model"), folder.path().join("p"));
    run(&["--export", model.to_str().unwrap(), "--predict", predicted.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(predicted).unwrap().lines().count(), 600);
    assert!(model.join("weights.tsv").is_file());
}
