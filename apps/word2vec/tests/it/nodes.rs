//! Several node processes: their common report, and what they refuse.

use intendant_apptest::{App, finish, ranks, start};
use serde_json::Value;
use std::process::Child;

const WORD2VEC: App = App::new(env!("CARGO_BIN_EXE_intendant-word2vec"));

fn report(flags: &[&str]) -> Value {
    WORD2VEC.report(flags)
}

/// Frequent words are hot: with a larger learning rate, the simultaneous steps of several workers would add
/// up to a step that is too large.
const TASK: [&str; 10] = [
    "--data",
    "builtin:topics:1000x40000",
    "--dim",
    "16",
    "--epochs",
    "3",
    "--lr",
    "0.025",
    "--sample",
    "0.01",
];

fn loss(report: &Value) -> f64 {
    report["test"]["heldout_loss"].as_f64().unwrap()
}

#[test]
fn samples_are_counted() {
    let report = report(&[&TASK[..], &["--nodes", "2"]].concat());
    let access = |name: &str| report["access"][name].as_u64().unwrap();
    assert_eq!(access("local") + access("remote"), 2 * access("pull_keys"));
    assert_eq!(access("pull_keys"), access("push_keys"));
    // Most accesses are samples.
    assert!(2 * access("sampled") > access("pull_keys") && access("sampled") < access("pull_keys"));
    assert_eq!(access("sampled") % 5, 0, "five for each pair");
}

#[test]
fn a_simulated_cluster_trains_the_same() {
    let single = report(&[&TASK[..], &["--technique", "single"]].concat());
    let simulated = report(
        &[&TASK[..], &["--technique", "classic", "--nodes", "4", "--workers", "2", "--simulate"]].concat(),
    );
    assert_eq!(single["data_digest"], simulated["data_digest"]);
    assert!((0.95..1.1).contains(&(loss(&simulated) / loss(&single))), "{}", simulated["test"]);
}

#[test]
fn more_workers_than_batches_are_no_problem() {
    let small = ["--data", "builtin:topics:50x300", "--dim", "4", "--epochs", "2"];
    let report = report(&[&small[..], &["--nodes", "2", "--workers", "8", "--batch-words", "200"]].concat());
    assert!(report["epochs"][1]["examples"].as_u64() > Some(0));
}

#[test]
fn nodes_with_different_text_refuse_each_other() {
    let data = ["builtin:topics:100x1000", "builtin:topics:100x1001"];
    let commands = data.map(|data| WORD2VEC.command(&["--data", data, "--epochs", "3"])).into();
    let children: Vec<Child> = ranks(commands).into_iter().map(start).collect();
    for output in children.into_iter().map(finish) {
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("were started differently: digest of the data is"), "{said}");
    }
}
