//! Runs every mode for a moment, as a user would: the mode ends, and its rows have the documented fields.
//! Nothing here asserts a time.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Fields of every row.
const FIELDS: [&str; 9] = [
    "wall_ns_per_key",
    "cpu_ns_per_key",
    "limit_wall_ns_per_key",
    "limit_cpu_ns_per_key",
    "ratio",
    "keys_per_s",
    "p50_us",
    "p99_us",
    "batch",
];

/// Runs the program with nothing from the environment that makes it a node.
fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_intendant-bench"));
    command.args(args).env("INTENDANT_LAUNCHER", "none");
    for variable in ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"] {
        command.env_remove(variable);
    }
    command.output().expect("the program starts")
}

/// The rows of a short run, which must succeed without a word on standard error.
#[track_caller]
fn rows(args: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rows.json");
    let short = ["--seconds", "0.3", "--rounds", "2", "--json"];
    let output = bench(&[args, &short, &[file.to_str().expect("a path in UTF-8")]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{args:?}: {}: {said}", output.status);
    let rows = read(&file);
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(rows.iter().all(|row| table.contains(row["op"].as_str().expect("an op"))), "{table}");
    for row in &rows {
        assert_eq!(row["mode"], args[0]);
        for field in FIELDS {
            let number = row[field].as_f64();
            assert!(number.is_some_and(|n| n.is_finite() && n >= 0.0), "{field} of {row}");
        }
        assert!(row["ratio"].as_f64() > Some(0.0), "{row}");
        assert!(row["ratio_spread"]["min"].as_f64() <= row["ratio_spread"]["max"].as_f64(), "{row}");
    }
    rows
}

fn read(file: &Path) -> Vec<Value> {
    serde_json::from_slice(&std::fs::read(file).expect("rows")).expect("JSON")
}

#[track_caller]
fn positive(rows: &[Value], fields: &[&str]) {
    for row in rows {
        for field in fields {
            assert!(row[*field].as_f64() > Some(0.0), "{field} of {row}");
        }
    }
}

fn ops(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["op"].as_str().expect("an op")).collect()
}

/// Fields of every mode that measures calls.
const TIMES: [&str; 7] = [
    "wall_ns_per_key",
    "cpu_ns_per_key",
    "limit_wall_ns_per_key",
    "limit_cpu_ns_per_key",
    "keys_per_s",
    "p50_us",
    "p99_us",
];

#[test]
fn local() {
    let rows = rows(&["local", "--keys", "1000", "--threads", "2", "--float", "f64"]);
    assert_eq!(ops(&rows), ["pull", "push"]);
    positive(&rows, &TIMES);
    assert_eq!((&rows[0]["threads"], &rows[0]["float"]), (&2.into(), &"f64".into()));
}

#[test]
fn local_access() {
    for access in ["queue", "ipc"] {
        let rows = rows(&["local", "--keys", "1000", "--batch", "4", "--local-access", access]);
        assert_eq!(ops(&rows), ["pull", "push"]);
        positive(&rows, &TIMES);
        assert_eq!(rows[0]["local_access"], access);
        // Only messages between processes have a length.
        assert_eq!(rows[0].get("request_bytes").is_some(), access == "ipc");
    }
}

#[test]
fn remote() {
    for args in [
        &["remote", "--keys", "1000", "--batch", "1"][..],
        &["remote", "--keys", "1000", "--dist", "zipf", "--technique", "lapse"],
        &["remote", "--keys", "1000", "--float", "f64", "--cores", "any", "--in-flight", "1"],
    ] {
        let rows = rows(args);
        assert_eq!(ops(&rows), ["pull", "push"]);
        positive(&rows, &TIMES);
        positive(&rows, &["in_flight", "request_bytes", "response_bytes"]);
        let extra = if rows[0]["in_flight"] == 1.0 { "limit_p50_us" } else { "payload_bytes_per_s" };
        positive(&rows, &[extra]);
    }
    let pull = rows(&["remote", "--keys", "1000", "--op", "pull", "--len", "1"]);
    assert_eq!(ops(&pull), ["pull"]);
}

#[test]
fn relocate() {
    for technique in ["lapse", "nups"] {
        let rows =
            rows(&["relocate", "--keys", "1000", "--len", "16", "--batch", "64", "--technique", technique]);
        assert_eq!(ops(&rows), ["localize", "localize-one"]);
        positive(&rows, &TIMES);
    }
}

#[test]
fn sync() {
    for technique in ["full-replication", "nups"] {
        let rows = rows(&["sync", "--keys", "1000", "--len", "4", "--technique", technique]);
        assert_eq!(ops(&rows), ["round", "round-of-all"]);
        positive(&rows, &TIMES);
        assert_eq!((&rows[0]["batch"], &rows[1]["batch"]), (&128.into(), &1000.into()));
    }
}

#[test]
fn intent() {
    let rows = rows(&["intent", "--keys", "1000", "--len", "4", "--batch", "16"]);
    assert_eq!(ops(&rows), ["intent", "intent-both"]);
    positive(&rows, &["wall_ns_per_key", "limit_wall_ns_per_key", "keys_per_s", "node_cpu_ns_per_key"]);
}

#[test]
fn idle() {
    let rows = rows(&["idle", "--keys", "1000", "--len", "4"]);
    assert_eq!(ops(&rows), ["idle"]);
    positive(&rows, &["cores_first", "cores_second"]);
}

#[test]
fn memory() {
    let rows = rows(&["memory", "--keys", "200000"]);
    assert_eq!(ops(&rows), ["resident"]);
    positive(&rows, &["bytes_per_key", "limit_bytes_per_key"]);
    assert_eq!((&rows[0]["len"], &rows[0]["limit_bytes_per_key"]), (&16.into(), &64.0.into()));
}

#[test]
fn sample() {
    for dist in ["uniform", "zipf"] {
        let rows = rows(&["sample", "--keys", "1000", "--len", "4", "--dist", dist]);
        assert_eq!(ops(&rows), ["independent", "reuse", "postponing", "local", "repurposing"]);
        positive(&rows, &TIMES);
    }
}

#[test]
fn window() {
    let rows = rows(&["window", "--len", "128"]);
    assert_eq!(ops(&rows), ["read-own", "read", "read-busy", "write"]);
    positive(&rows, &["wall_ns_per_key", "cpu_ns_per_key", "limit_cpu_ns_per_key", "keys_per_s"]);
    assert_eq!((&rows[0]["missed_share"], &rows[1]["missed_share"]), (&0.0.into(), &0.0.into()));
}

#[test]
fn remote_through_windows() {
    // A window contains the values that its owner's channel has read recently. While other programs use the
    // cores, the channel may not run during a whole measurement; then pulls use the connection, as they
    // should.
    let mut shares = Vec::new();
    while shares.len() < 5 && shares.last().is_none_or(|share| *share <= 0.5) {
        let through = rows(&["remote", "--keys", "1000", "--batch", "1", "--op", "pull", "--windows"]);
        shares.push(through[0]["windows_share"].as_f64().expect("a number"));
    }
    let without = rows(&["remote", "--keys", "1000", "--batch", "1", "--op", "pull"]);
    assert!(shares.last().is_some_and(|share| *share > 0.5), "{shares:?}");
    assert_eq!(without[0]["windows_share"], 0.0);
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let nowhere = folder.path().join("none").join("rows.json");
    for (args, said) in [
        (&["remote", "--technique", "full-replication"][..], "classic"),
        (&["sync", "--technique", "classic"], "nups"),
        (&["relocate", "--keys", "100"], "--keys"),
        (&["intent", "--threads", "2"], "--threads"),
        (&["idle", "--json", nowhere.to_str().expect("a path in UTF-8")], "--json"),
        (&["local", "--seconds", "0"], "seconds"),
        (&["nothing"], "remote"),
    ] {
        let output = bench(args);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(said), "{args:?}: {told}");
    }
}

/// The process of a node that this launcher started, once it is there.
#[cfg(target_os = "linux")]
fn node_of(launcher: u32, rank: &str) -> Option<rustix::process::Pid> {
    let rank = format!("RANK={rank}");
    for entry in std::fs::read_dir("/proc").expect("processes").flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        // A process that ends meanwhile is not the one.
        let Ok(status) = std::fs::read_to_string(entry.path().join("status")) else { continue };
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
        let child = status.lines().any(|line| line.split_whitespace().eq(["PPid:", &launcher.to_string()]));
        if child && environment.split(|byte| *byte == 0).any(|variable| variable == rank.as_bytes()) {
            return rustix::process::Pid::from_raw(pid);
        }
    }
    None
}

#[cfg(target_os = "linux")]
#[test]
fn a_peer_that_dies_ends_the_measurement() {
    for args in [&["remote", "--batch", "1"][..], &["relocate"], &["sync"], &["idle"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_intendant-bench"));
        command.args(args).args(["--keys", "1000", "--seconds", "300", "--rounds", "150"]);
        for variable in ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"] {
            command.env_remove(variable);
        }
        let launcher = command
            .env("INTENDANT_LAUNCHER", "none")
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("the program starts");
        let pause = |millis| std::thread::park_timeout(std::time::Duration::from_millis(millis));
        let node = loop {
            match node_of(launcher.id(), "1") {
                Some(node) => break node,
                None => pause(20),
            }
        };
        // By now, the node is most likely in the middle of the measurement; its start would do as well.
        pause(1_500);
        rustix::process::kill_process(node, rustix::process::Signal::KILL).expect("it was there");
        let output = launcher.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{args:?}: {told}");
        assert!(told.contains("node 1"), "{args:?}: {told}");
    }
}
