//! Runs that continue from checkpoints.

use crate::train::LR;
use serde_json::Value;
use std::fs;

/// A single worker continues as if it had not stopped, to the last bit.
#[test]
fn a_run_that_goes_on_is_as_one_that_was_not_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for optimizer in ["ftrl", "adagrad", "sgd"] {
        for technique in ["single", "adaptive"] {
            let cuts = path(&format!("cuts-{optimizer}-{technique}"));
            let task =
                ["--data", "builtin:sparse:3000x300x10", "--optimizer", optimizer, "--technique", technique];
            let whole = LR.report(&[&task[..], &["--epochs", "5"]].concat());
            let checkpoint = ["--checkpoint", &cuts];
            let first = LR.report(&[&task[..], &checkpoint, &["--epochs", "2"]].concat());
            let resumed = LR.report(&[&task[..], &checkpoint, &["--epochs", "5", "--resume"]].concat());
            let losses = |report: &Value| -> Vec<u64> {
                let epochs = report["epochs"].as_array().unwrap().iter();
                epochs.map(|epoch| epoch["loss"].as_f64().unwrap().to_bits()).collect()
            };
            assert_eq!(losses(&first), losses(&whole)[..2]);
            assert_eq!(losses(&resumed), losses(&whole), "{optimizer}, {technique}");
            assert_eq!(resumed["test"], whole["test"], "{optimizer}, {technique}");
            assert_eq!(resumed["data_digest"], whole["data_digest"]);
        }
    }
}

/// The model with the best validation is tested, exported, and used for predictions.
#[test]
fn the_best_model_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (cuts, predicted) = (path("cuts"), path("p"));
    // Without a penalty, and with few rows, long training overfits.
    let flags =
        ["--data", "builtin:sparse:300x300x10", "--l1", "0", "--lr", "1", "--valid", "0.3", "--epochs", "30"];
    let more = ["--technique", "single", "--checkpoint", &cuts, "--keep", "best", "--predict", &predicted];
    let report = LR.report(&[&flags[..], &more].concat());
    let best = report["validation"]["best_epoch"].as_u64().unwrap() as usize;
    assert!(best < 30, "{}", report["validation"]);
    assert_eq!(report["validation"]["model_epoch"].as_u64().unwrap() as usize, best);
    let quality = |epoch: usize| &report["epochs"][epoch - 1]["quality"]["objective"];
    assert_eq!(
        &report["test"]["objective"],
        quality(best),
        "FTRL's penalty is that of the model's own passes"
    );
    assert_ne!(&report["test"]["objective"], quality(30));
    assert_eq!(fs::read_to_string(predicted).unwrap().lines().count(), 60);
}

#[test]
fn another_run_s_checkpoint_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cuts = folder.path().join("cuts").to_str().unwrap().to_owned();
    let flags = ["--data", "builtin:sparse:300x30x5", "--technique", "single", "-q"];
    let with = |more: &[&str]| LR.output(&[&flags[..], &["--checkpoint", &cuts], more].concat());
    assert!(with(&[]).status.success());
    for (more, said) in [
        (&["--resume", "--c", "2"][..], "--c is 2.0 here and 1.0 there"),
        (&["--resume", "--intercept"], "--intercept is true here and false there"),
        (&["--resume", "--optimizer", "sgd"], "--lr is 0.01 here and 0.2 there"),
    ] {
        let output = with(more);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(said), "{more:?}: {error}");
    }
    assert!(with(&["--resume", "--epochs", "21", "--workers", "2"]).status.success());
}
