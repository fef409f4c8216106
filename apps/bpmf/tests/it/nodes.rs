//! Several node processes: the same bits as one, what they exchange, and how they end.
#![cfg(target_os = "linux")]

use super::{BPMF, QUALITY, SMALL, refused, report};
use intendant_apptest::{finish, ranks, schema, start};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const EPOCHS: u64 = 7;

/// Files by name.
pub(super) type Files = Vec<(String, Vec<u8>)>;

/// Losses, qualities, and the files of the model, which must be equal bit by bit; and the report.
pub(crate) fn outcome(flags: &[&str]) -> (Vec<u64>, Vec<Value>, Files, Value) {
    let folder = tempfile::tempdir().unwrap();
    let export = folder.path().join("model");
    let always = ["--epochs", "7", "--burn-in", "2", "--export", export.to_str().unwrap()];
    let report = report(&[&SMALL[..], &always, flags].concat());
    let epochs = report["epochs"].as_array().unwrap();
    let losses = epochs.iter().map(|epoch| epoch["loss"].as_f64().unwrap().to_bits()).collect();
    let qualities = epochs.iter().map(|epoch| &epoch["quality"]).chain([&report["test"]]).cloned().collect();
    (losses, qualities, files(&export), report)
}

/// The files of a folder except `export.json`, which has the settings.
pub(super) fn files(folder: &Path) -> Files {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut files: Files = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .filter(|(name, _)| name != "export.json")
        .collect();
    files.sort();
    files
}

pub(crate) fn exchanged(report: &Value, name: &str) -> u64 {
    report["one_sided"][name].as_u64().unwrap_or_else(|| panic!("{name}: {}", report["one_sided"]))
}

#[test]
fn any_number_of_nodes_computes_the_same_bits_with_each_exchange() {
    let one = outcome(&["--nodes", "1"]);
    assert_eq!(one.3.get("one_sided"), None, "there is no other node");
    for (exchange, nodes) in [
        ("lapser-push", "2"),
        ("lapser-pull", "2"),
        ("lapser-push-by-slack", "2"),
        ("one-sided", "2"),
        ("all-gather", "3"),
        ("broadcast", "3"),
        ("lapser-push", "4"),
        ("lapser-pull", "4"),
    ] {
        let more = outcome(&["--nodes", nodes, "--exchange", exchange]);
        let what = format!("{exchange} on {nodes} nodes");
        assert_eq!((&more.0, &more.1), (&one.0, &one.1), "{what}");
        let names = |files: &[(String, Vec<u8>)]| files.iter().map(|file| file.0.clone()).collect::<Vec<_>>();
        assert_eq!(names(&more.2), names(&one.2), "{what}");
        assert!(more.2 == one.2, "the files of {what} differ from those of one node");

        let report = &more.3;
        schema::check(report, &QUALITY, 1);
        assert_eq!(
            (&report["technique"], &report["nodes"]),
            (&exchange.into(), &nodes.parse::<u64>().unwrap().into())
        );
        let (reads, writes) = (exchanged(report, "reads"), exchanged(report, "writes"));
        if exchange == "lapser-pull" {
            assert!(reads > 0 && writes == 0, "{what}: {reads} reads, {writes} writes");
        } else {
            // A node that waits for long may read an item that another node was to write.
            let pushed_only = reads == 0 || exchange == "lapser-push-by-slack";
            assert!(writes > 0 && pushed_only, "{what}: {reads} reads, {writes} writes");
        }
        let epochs = report["epochs"].as_array().unwrap();
        let of =
            |name: &str| epochs.iter().map(|epoch| epoch["one_sided"][name].as_u64().unwrap()).sum::<u64>();
        assert!(of("gets") > EPOCHS && of("sets") > EPOCHS, "{what}: {}", report["one_sided"]);
    }
}

#[test]
fn more_is_written_to_more_nodes_than_need_it() {
    let bytes = |exchange: &str| {
        let flags = ["--epochs", "3", "--burn-in", "1", "--nodes", "3", "--exchange", exchange];
        // Few entries per row, so that few nodes need a row.
        let report =
            report(&[&["--data", "builtin:uniform:900x600x1500", "--rank", "4"][..], &flags].concat());
        (exchanged(&report, "written_bytes"), exchanged(&report, "writes"))
    };
    let (needed, all, at_once) = (bytes("lapser-push"), bytes("broadcast"), bytes("all-gather"));
    assert!(needed.0 < all.0, "{needed:?}, broadcast {all:?}");
    assert!(at_once.1 < needed.1 / 10, "{at_once:?}, {needed:?}");
}

#[test]
fn with_slack_rows_are_read_less_often_and_quality_stays() {
    let run = |exchange: &str, slack: &str| {
        let flags = ["--epochs", "40", "--burn-in", "10", "--nodes", "3", "--valid-every", "0"];
        let flags = [&SMALL[..], &flags, &["--exchange", exchange, "--slack", slack]].concat();
        let report = report(&flags);
        let rmse = report["test"]["rmse"].as_f64().unwrap();
        // The number of repeated reads depends on how long other nodes take.
        let reads = exchanged(&report, "reads")
            .saturating_sub(exchanged(&report, "stale") + exchanged(&report, "torn"));
        (reads, exchanged(&report, "writes"), rmse)
    };
    let (exact, slack) = (run("lapser-pull", "0"), run("lapser-pull", "4"));
    // Most reads are of rows, which are read every fifth time.
    assert!(slack.0 < exact.0 / 2, "{exact:?}, {slack:?}");
    assert!((slack.2 - exact.2).abs() < 0.03, "{exact:?}, {slack:?}");
    // Pushing by slack writes as rarely as pulling reads; pushing always writes.
    let (by_slack, push) = (run("lapser-push-by-slack", "4"), run("lapser-push", "4"));
    assert!(by_slack.1 < push.1 / 2, "{by_slack:?}, {push:?}");
    assert!((push.2 - exact.2).abs() < 0.03, "{exact:?}, {push:?}");
}

#[test]
fn what_several_nodes_cannot_do_is_refused() {
    for (flags, said) in [
        (&["--exchange", "classic"][..], "'classic' is not an exchange; use lapser-push, lapser-pull, "),
        (
            &["--exchange", "broadcast", "--slack", "2"],
            "--slack is 2, but with --exchange broadcast all nodes meet",
        ),
        (
            &["--hyper-slack", "1"],
            "--hyper-slack is 1; it must be 0: blocks that draw rows under hyperparameters",
        ),
        (&["--nodes", "200"], "--nodes is 200; a matrix can be divided among at most "),
        (&["--memory", "tcp"], "'tcp' is not a way to the memory of others; use auto, shm or verbs"),
    ] {
        let (code, error) = refused(&[&SMALL[..], flags].concat());
        assert_eq!(code, Some(2), "{flags:?}: {error}");
        assert!(error.contains(said), "{flags:?}: {error}");
    }
}

/// If only one node names a way, the other node follows it.
#[test]
fn nodes_that_are_told_different_ways_to_memory_refuse_each_other() {
    let run = |ways: [&str; 2]| {
        let flags = |way| [&SMALL[..], &["--epochs", "2", "--memory", way]].concat();
        let commands = ways.map(|way| BPMF.command(&flags(way))).into();
        let children: Vec<Child> = ranks(commands).into_iter().map(start).collect();
        children
            .into_iter()
            .map(finish)
            .map(|output| (output.status.code(), String::from_utf8(output.stderr).unwrap()))
    };
    for (code, text) in run(["auto", "shm"]) {
        assert_eq!(code, Some(0), "{text}");
    }
    if cfg!(not(feature = "verbs")) {
        for (code, text) in run(["verbs", "verbs"]) {
            assert_eq!(code, Some(2), "{text}");
            assert!(
                text.contains("built without the feature verbs: build it with --features verbs"),
                "{text}"
            );
        }
        return;
    }
    for (code, text) in run(["verbs", "shm"]) {
        assert_eq!(code, Some(2), "{text}");
        let said = "node 0 is to reach the memory of others by verbs, node 1 by shm: choose the same";
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn nodes_with_different_settings_or_data_refuse_each_other() {
    for (one, other, said) in [
        (["--slack", "1"], ["--slack", "2"], "--slack is "),
        (
            ["--data", "builtin:zipf:30x20x100"],
            ["--data", "builtin:uniform:30x20x100"],
            "digest of the data is",
        ),
    ] {
        let commands =
            [one, other].map(|flags| BPMF.command(&[&flags[..], &["--epochs", "4"]].concat())).into();
        let children: Vec<Child> = ranks(commands).into_iter().map(start).collect();
        for output in children.into_iter().map(finish) {
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert!(error.contains("were started differently") && error.contains(said), "{error}");
        }
    }
}

/// On one node, values leave the range of numbers: all nodes end with the same code.
#[test]
fn a_chain_that_diverges_ends_all_nodes_alike() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("huge.csv");
    fs::write(&data, "a,x,1e200\nb,x,-1e200\na,y,1e200\n").unwrap();
    let commands = (0..2).map(|_| BPMF.command(&["--data", data.to_str().unwrap()])).collect();
    let children: Vec<Child> = ranks(commands).into_iter().map(start).collect();
    for output in children.into_iter().map(finish) {
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains("diverged: the precision of"), "{error}");
    }
}

/// A node gets a signal in the middle of an iteration. The others end by themselves. Returns the exit codes
/// and the output of all.
fn ended(exchange: &str, nodes: usize, victim: usize, signal: Signal) -> Vec<(Option<i32>, String)> {
    let flags = ["--data", "builtin:zipf:6000x2000x200000", "--exchange", exchange];
    ended_with(&flags, nodes, victim, signal).0
}

/// The same with these flags; also returns the time from the signal to the end of the last node.
pub(crate) fn ended_with(
    flags: &[&str],
    nodes: usize,
    victim: usize,
    signal: Signal,
) -> (Vec<(Option<i32>, String)>, Duration) {
    let report = tempfile::tempdir().unwrap();
    let file = report.path().join("report.json");
    let always = ["--epochs", "100000", "--burn-in", "10", "--valid-every", "0", "--report"];
    let flags = [flags, &always, &[file.to_str().unwrap()]].concat();
    let commands = (0..nodes).map(|_| BPMF.command(&flags)).collect();
    let mut children: Vec<Child> = ranks(commands)
        .into_iter()
        .map(|mut command| command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    // The output of each node, until it ends.
    let listeners: Vec<mpsc::Receiver<String>> = children
        .iter_mut()
        .map(|child| {
            let (say, lines) = mpsc::channel();
            let stderr = BufReader::new(child.stderr.take().unwrap());
            std::thread::spawn(move || {
                stderr.lines().map_while(Result::ok).try_for_each(|line| say.send(line))
            });
            lines
        })
        .collect();
    let patience = Duration::from_secs(120);
    while !listeners[0].recv_timeout(patience).expect("node 0 says its epochs").contains(" 2/100000 ") {}
    let pids: Vec<Pid> = children.iter().map(Pid::from_child).collect();
    kill_process(pids[victim], signal).unwrap();
    let start = now();
    let all = children
        .into_iter()
        .zip(&listeners)
        .enumerate()
        .filter(|(rank, _)| *rank != victim || signal != Signal::STOP)
        .map(|(_, (child, lines))| {
            let status = finish(child).status;
            let mut text = String::new();
            while let Ok(line) = lines.recv_timeout(patience) {
                text.push_str(&line);
                text.push('\n');
            }
            (status.code(), text)
        })
        .collect();
    let took = start.elapsed();
    if signal == Signal::STOP {
        // The victim still exists, because it was only stopped.
        kill_process(pids[victim], Signal::KILL).unwrap();
    }
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let left: Vec<String> = fs::read_dir(report.path()).unwrap().map(name).collect();
    assert_eq!(left, ["report.epochs.jsonl"], "the history and no report of a run that failed");
    (all, took)
}

#[expect(clippy::disallowed_methods, reason = "how long other processes take")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn a_killed_node_ends_the_others_by_name() {
    for (exchange, victim, name) in [
        ("lapser-push", 1, "node 1 "),
        ("lapser-pull", 1, "node 1 "),
        ("lapser-push", 0, "node 0"),
        ("lapser-pull", 0, "node 0"),
    ] {
        let all = ended(exchange, 3, victim, Signal::KILL);
        for (rank, (code, text)) in all.iter().enumerate().filter(|(rank, _)| *rank != victim) {
            assert_eq!(*code, Some(4), "{exchange}, node {rank}: {text}");
            let says = |line: &&str| line.starts_with("bpmf: error: ") && line.contains(name);
            assert_eq!(text.lines().filter(says).count(), 1, "{exchange}, node {rank}: {text}");
        }
    }
}

/// The node closes no connection: only the control plane notices.
#[test]
fn a_stopped_node_ends_the_others_by_name() {
    for (code, text) in ended("lapser-push", 2, 1, Signal::STOP) {
        assert_eq!(code, Some(4), "{text}");
        assert!(
            text.lines().any(|line| line.starts_with("bpmf: error: ") && line.contains("node 1 ")),
            "{text}"
        );
    }
}

#[test]
fn an_interrupted_node_ends_all() {
    let all = ended("lapser-push", 2, 1, Signal::INT);
    assert_eq!(all[1].0, Some(130), "{}", all[1].1);
    assert!(all[0].1.contains("interrupted by signal 2"), "{}", all[0].1);
    assert_eq!(all[0].0, Some(1), "{}", all[0].1);
}
