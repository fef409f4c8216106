//! Checkpoints, kills and resumptions: every item is counted exactly once per epoch.

use crate::count::SKETCH;
use intendant_apptest::{finish, start};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use tempfile::TempDir;

/// A stream that takes seconds to count, because batches are small.
const LONG: [&str; 10] = [
    "--data",
    "builtin:zipf:600000x5000",
    "--batch-bytes",
    "1024",
    "--epochs",
    "2",
    "--top",
    "10",
    "--width",
    "4096",
];

struct Run(TempDir);

impl Run {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = SKETCH.command(&[&LONG[..], flags].concat());
        for (flag, name) in [("--checkpoint", "cuts"), ("--export", "sketch"), ("--report", "report.json")] {
            command.arg(flag).arg(self.path(name));
        }
        command
    }

    /// Waits until a checkpoint is committed.
    fn await_cut(&self, child: &mut Child) {
        let is_cut = || {
            let cuts = fs::read_dir(self.path("cuts")).into_iter().flatten().flatten();
            cuts.into_iter().any(|cut| cut.path().join("manifest.json").is_file())
        };
        while !is_cut() {
            assert!(child.try_wait().unwrap().is_none(), "it ended before the first checkpoint");
            std::thread::yield_now();
        }
    }

    /// Checks the sums of the report; returns the cells and the heavy hitters.
    fn outcome(&self) -> (Vec<u8>, String) {
        let report: Value = serde_json::from_slice(&fs::read(self.path("report.json")).unwrap()).unwrap();
        assert_eq!(report["test"]["inserted"], 1.2e6, "{}", report["test"]);
        for zero in ["row_deviation", "underestimates"] {
            assert_eq!(report["test"][zero], 0.0, "{}", report["test"]);
        }
        for epoch in report["epochs"].as_array().unwrap() {
            assert_eq!(epoch["examples"], 600_000);
        }
        let file = |name: &str| fs::read(self.path("sketch").join(name)).unwrap();
        (file("counters.npy"), String::from_utf8(file("top.tsv")).unwrap())
    }
}

fn end(child: Child, code: i32) -> String {
    let output = finish(child);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

fn undisturbed() -> (Vec<u8>, String) {
    let run = Run::new();
    end(start(run.command(&[])), 0);
    run.outcome()
}

/// The process of a node that this launcher has started.
fn node_of(launcher: &Child, rank: u32) -> Pid {
    let parent = launcher.id().to_string();
    let variable = format!("RANK={rank}");
    let is_node = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&parent)
            && environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    };
    let mut processes = fs::read_dir("/proc").unwrap().flatten();
    let node =
        processes.find_map(|entry| entry.file_name().to_str()?.parse().ok().filter(|pid| is_node(*pid)));
    Pid::from_raw(node.expect("a node") as i32).expect("a process")
}

#[test]
fn nodes_that_are_killed_start_again_and_count_everything_once() {
    let expected = undisturbed();
    for (technique, nodes, rank) in [("adaptive", "2", 1), ("lapse", "2", 0), ("essp", "4", 3)] {
        let run = Run::new();
        let flags = [
            "--technique",
            technique,
            "--nodes",
            nodes,
            "--max-restarts",
            "3",
            "--checkpoint-seconds",
            "0.2",
        ];
        let mut launcher = start(run.command(&flags));
        run.await_cut(&mut launcher);
        kill_process(node_of(&launcher, rank), Signal::KILL).unwrap();
        let said = end(launcher, 0);
        assert!(said.contains("starting all nodes again") && said.contains("resuming from "), "{said}");
        assert!(run.outcome() == expected, "{technique}");
    }
}

/// After a run is killed, another number of nodes and workers and another technique continue it.
#[test]
fn a_run_that_was_killed_is_resumed_by_others() {
    let expected = undisturbed();
    let run = Run::new();
    let mut child = start(run.command(&["--workers", "2", "--checkpoint-seconds", "0.2"]));
    run.await_cut(&mut child);
    child.kill().unwrap();
    assert!(!finish(child).status.success());
    let said = end(start(run.command(&["--resume", "--nodes", "3", "--technique", "classic"])), 0);
    assert!(said.contains("resuming from "), "{said}");
    assert!(run.outcome() == expected);
    let refused = SKETCH.output(
        &[&LONG[..], &["--checkpoint", run.path("cuts").to_str().unwrap(), "--resume", "--depth", "3"]]
            .concat(),
    );
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("--depth is 3 here and 5 there"), "{said}");
}
