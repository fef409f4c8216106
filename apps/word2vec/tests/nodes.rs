//! Several node processes: what they report together, and what they refuse.

mod program;
mod schema;

use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::process::Stdio;

fn report(flags: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let flags = [flags, &["--report", file.to_str().unwrap(), "-q"]].concat();
    let output = program::word2vec().args(&flags).output().unwrap();
    assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// Frequent words are hot: with a larger learning rate, the steps that several workers make at once add up to too large ones.
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
fn quality_is_that_of_one_process_with_every_technique() {
    let single = report(&[&TASK[..], &["--technique", "single"]].concat());
    for technique in [
        &["classic"][..],
        &["lapse", "--localize-ahead", "2"],
        &["nups", "--localize-ahead", "2", "--replicate-top", "20"],
        &["ssp", "--staleness", "2"],
        &["full-replication", "--sync-every", "10"],
    ] {
        let flags = [&TASK[..], &["--nodes", "2", "--workers", "2", "--technique"], technique].concat();
        let report = report(&flags);
        schema::check(&report);
        for place in ["/data_digest", "/access/pull_keys", "/access/sampled"] {
            assert_eq!(report.pointer(place), single.pointer(place), "{place}: {technique:?}");
        }
        for (epoch, alone) in
            report["epochs"].as_array().unwrap().iter().zip(single["epochs"].as_array().unwrap())
        {
            assert_eq!(epoch["examples"], alone["examples"]);
        }
        // Stale values cost some quality.
        let ratio = loss(&report) / loss(&single);
        assert!((0.95..1.1).contains(&ratio), "{technique:?}: {ratio}");
    }
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
    let simulated = report(&[&TASK[..], &["--nodes", "4", "--workers", "2", "--simulate"]].concat());
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
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = |rank: usize| {
        let data = ["builtin:topics:100x1000", "builtin:topics:100x1001"][rank];
        let mut command = program::word2vec();
        command.args(["--data", data, "--epochs", "3"]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", "2");
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string()).spawn().unwrap()
    };
    for child in [0, 1].map(start) {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("were started differently: digest of the data is"), "{said}");
    }
}
