//! Several node processes: their common report, the keys that move between them, and what they refuse.

use intendant_apptest::{App, finish, ranks, schema, start};
use serde_json::Value;
use std::process::Child;

const MF: App = App::new(env!("CARGO_BIN_EXE_intendant-mf"));

fn report(flags: &[&str]) -> Value {
    MF.report(flags)
}

fn access(report: &Value, name: &str) -> u64 {
    report["access"][name].as_u64().unwrap()
}

const COLUMNS: u64 = 150;
const EPOCHS: u64 = 4;
const DATA: [&str; 4] = ["--data", "builtin:zipf:1000x150x30000", "--epochs", "4"];

/// Runs `technique` on `nodes` nodes of two workers.
fn run(technique: &str, nodes: &str, algorithm: &str, more: &[&str]) -> Value {
    let flags = ["--technique", technique, "--nodes", nodes, "--workers", "2", "--algorithm", algorithm];
    let report = report(&[&DATA[..], &flags, more].concat());
    assert_eq!(access(&report, "local") + access(&report, "remote"), 2 * access(&report, "pull_keys"));
    schema::check(&report, &["rmse", "mae"], 1);
    assert_eq!(report["task"], "mf");
    assert_eq!(
        (&report["nodes"], &report["workers_per_node"]),
        (&nodes.parse::<u64>().unwrap().into(), &2.into())
    );
    for epoch in report["epochs"].as_array().unwrap() {
        assert_eq!(epoch["examples"], 30_000);
    }
    report
}

/// Training with replicas that exchange rounded elements reaches the same quality. (Epochs are so short that
/// most updates are sent at rest, exactly.)
#[test]
fn rounded_deltas_teach_the_same() {
    let run = |delta_type: &str| run("adaptive", "2", "tiles", &["--rank", "64", "--delta-type", delta_type]);
    let (exact, rounded) = (run("f32"), run("bf16"));
    assert_eq!(rounded["config"]["delta-type"], "bf16");
    assert_eq!(exact["config"]["delta-type"], "exact");
    let rmse = |report: &Value| report["test"]["rmse"].as_f64().unwrap();
    assert!(rmse(&rounded) < 1.05 * rmse(&exact), "{} instead of {}", rmse(&rounded), rmse(&exact));
    let refused = MF.output(&["--technique", "nups", "--nodes", "2", "--delta-type", "bf16"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("--delta-type is for techniques that act on intents"), "{said}");
}

/// [thesis §3.3.1]: with parameter blocking, nodes communicate between subepochs only.
#[test]
fn blocks_move_between_subepochs_and_nothing_is_remote_within_them() {
    for (nodes, batch) in [("2", "64"), ("3", "5")] {
        let report = run("lapse", nodes, "blocks", &["--batch", batch]);
        assert_eq!(access(&report, "remote"), 0, "{}", report["access"]);
        let relocations = report["management"]["relocations"].as_u64().unwrap();
        let workers = 2 * nodes.parse::<u64>().unwrap();
        assert!((1..=COLUMNS * EPOCHS * workers).contains(&relocations), "{relocations} relocations");
    }
}

/// [thesis §5.4.6]: in an epoch, each column moves at most once to each node.
#[test]
fn a_column_moves_to_a_node_at_most_once_per_epoch() {
    for (nodes, batch) in [("2", "64"), ("3", "5")] {
        let report = run("lapse", nodes, "columns", &["--batch", batch, "--localize-ahead", "8"]);
        let relocations = report["management"]["relocations"].as_u64().unwrap();
        let nodes: u64 = nodes.parse().unwrap();
        assert!((1..=COLUMNS * EPOCHS * nodes).contains(&relocations), "{relocations} relocations");
        // Rows are at the nodes that use them.
        assert!(access(&report, "remote") < access(&report, "local"), "{}", report["access"]);
    }
}

#[test]
fn quality_is_that_of_one_process() {
    let rmse = |report: Value| report["test"]["rmse"].as_f64().unwrap();
    for algorithm in ["columns", "blocks"] {
        let more = ["--epochs", "12", "--algorithm", algorithm];
        let single = rmse(report(&[&more[..], &["--technique", "single"]].concat()));
        for technique in ["classic", "lapse"] {
            let two = rmse(report(&[&more[..], &["--nodes", "2", "--technique", technique]].concat()));
            assert!((two / single - 1.0).abs() < 0.02, "{algorithm}, {technique}: {two}, not {single}");
        }
    }
}

#[test]
fn more_workers_than_rows_and_columns_are_no_problem() {
    for algorithm in ["columns", "blocks"] {
        for technique in ["classic", "lapse"] {
            let size = ["--data", "builtin:zipf:3x4x4", "--epochs", "3", "--algorithm", algorithm];
            let cluster = ["--technique", technique, "--nodes", "2", "--workers", "4"];
            let report = report(&[size, cluster].concat());
            assert_eq!(report["epochs"][2]["examples"], 4);
        }
    }
}

#[test]
fn nodes_with_different_data_refuse_each_other() {
    let data = ["builtin:zipf:30x20x100", "builtin:uniform:30x20x100"];
    let commands = data.map(|data| MF.command(&["--data", data, "--epochs", "3"])).into();
    let children: Vec<Child> = ranks(commands).into_iter().map(start).collect();
    for output in children.into_iter().map(finish) {
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("were started differently: digest of the data is"), "{said}");
    }
}
