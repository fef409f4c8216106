//! Chains on simulated clusters.

use super::{QUALITY, number, refused, report};
use intendant_apptest::schema;
use serde_json::Value;

const SIMULATED: [&str; 9] =
    ["--simulate", "--data", "builtin:zipf:60x40x1000", "--alpha", "4", "--rank", "4", "--epochs", "8"];

fn run(flags: &[&str]) -> Value {
    report(&[&SIMULATED[..], flags].concat())
}

/// All losses and the quality, bit by bit.
fn results(report: &Value) -> (Vec<u64>, Value) {
    let epochs = report["epochs"].as_array().unwrap();
    (epochs.iter().map(|epoch| number(&epoch["loss"]).to_bits()).collect(), report["test"].clone())
}

const EXCHANGES: [&str; 6] =
    ["lapser-push", "lapser-pull", "lapser-push-by-slack", "one-sided", "all-gather", "broadcast"];

#[test]
fn without_slack_all_exchanges_and_numbers_of_nodes_give_the_same_bits() {
    let real: Vec<&str> = SIMULATED.into_iter().filter(|flag| *flag != "--simulate").collect();
    let alone = results(&report(&real));
    assert_eq!(alone.0.len(), 8);
    for exchange in EXCHANGES {
        for nodes in ["1", "2", "5", "16"] {
            let simulated = run(&["--exchange", exchange, "--nodes", nodes]);
            assert_eq!(results(&simulated), alone, "{exchange} on {nodes} nodes");
        }
    }
    let one_by_one = run(&["--exchange", "lapser-pull", "--nodes", "4", "--operation-keys", "1"]);
    assert_eq!(results(&one_by_one), alone);
}

#[test]
fn the_same_flags_give_the_same_report_and_it_is_as_documented() {
    let flags = ["--exchange", "lapser-pull", "--nodes", "4", "--slack", "2"];
    let simulated = run(&flags);
    assert_eq!(simulated, run(&flags));
    schema::check(&simulated, &QUALITY, 1);
    assert_eq!(simulated["simulated"], true);
    let simulation = &simulated["simulation"];
    assert_eq!((&simulation["net"], &simulation["machine"]), (&"56gib".into(), &"xeon-e5-36-cores".into()));
    for epoch in simulated["epochs"].as_array().unwrap() {
        let (seconds, busy) = (number(&epoch["seconds"]), number(&epoch["cpu_seconds"]) / 4.0);
        assert!(0.0 < busy && busy < seconds, "{busy} of {seconds}");
        let exchange = number(&epoch["one_sided"]["seconds"]);
        assert!((exchange + busy - seconds).abs() < 1e-9, "{exchange} and {busy} are not {seconds}");
    }
    assert!((0.0..1.0).contains(&number(&simulation["nic_busy"])));
    let of_epochs: f64 = operations(&simulated).iter().sum();
    assert_eq!(number(&simulated["network"]["messages"]), of_epochs);
    // Only exchanges that push write.
    let (exchanged, messages) = (&simulated["one_sided"], &simulated["network"]["messages"]);
    assert_eq!((&exchanged["writes"], &exchanged["reads"]), (&0.into(), messages));
}

/// Operations per iteration; the first one includes those at the start.
fn operations(report: &Value) -> Vec<f64> {
    let epochs = report["epochs"].as_array().unwrap();
    epochs.iter().map(|epoch| number(&epoch["network"]["messages"])).collect()
}

#[test]
fn slack_saves_reads_of_pull_and_writes_of_push_by_slack_but_none_of_push() {
    let of = |exchange, slack| {
        let report = run(&["--exchange", exchange, "--nodes", "4", "--slack", slack]);
        operations(&report)[1..].iter().sum::<f64>()
    };
    let push = of("lapser-push", "0");
    assert_eq!(of("lapser-push", "3"), push);
    // Statistics and hyperparameters have no slack.
    assert!(of("lapser-push-by-slack", "3") < 0.5 * push);
    assert!(of("lapser-pull", "3") < 0.5 * of("lapser-pull", "0"));
}

/// Time grows with latency and with charged work, and is shorter on a faster network.
#[test]
fn virtual_time_is_that_of_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let preset = include_str!("../../../../crates/sim/presets/net-56gib.toml");
    let slow = folder.path().join("slow.toml");
    std::fs::write(&slow, preset.replace("latency_us = 1.0", "latency_us = 50.0")).unwrap();
    let seconds = |flags: &[&str]| {
        let report = run(&[&["--nodes", "4", "--operation-keys", "1"], flags].concat());
        number(&report["epochs"][7]["seconds"])
    };
    let pull = ["--exchange", "lapser-pull"];
    let usual = seconds(&pull);
    let net = ["--net", slow.to_str().unwrap(), "--machine", "xeon-e5-36-cores"];
    assert!(seconds(&[&pull[..], &net].concat()) > 5.0 * usual);
    assert!(seconds(&[&pull[..], &["--charge", "16"]].concat()) > 2.0 * usual);
    // Reads one after the other take longer than writes whose completion a node does not await one by one.
    assert!(seconds(&["--exchange", "lapser-push"]) < usual);
}

#[test]
fn what_is_not_simulated_is_refused() {
    for (flags, said) in [
        (&["--threads", "2"][..], "each simulated node of bpmf has one thread"),
        (&["--export", "/nonexistent/model"], "--export has no effect with --simulate"),
        (&["--exchange", "one-sided", "--slack", "1"], "it must be 0"),
        (&["--charge-compute", "2"], "unexpected argument '--charge-compute'"),
        (&["--nodes", "129"], "129"),
    ] {
        let (code, error) = refused(&[&SIMULATED[..], flags].concat());
        assert_eq!(code, Some(2), "{flags:?}: {error}");
        assert!(error.contains(said), "{flags:?}: {error}");
    }
}
