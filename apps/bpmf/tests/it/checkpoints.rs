//! Chains that are interrupted and continue: with the same bits as an uninterrupted chain.
#![cfg(target_os = "linux")]

use super::nodes::{Files, files};
use super::{BPMF, QUALITY, SMALL, number, refused};
use intendant_apptest::{finish, ranks, schema, start};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;
use tempfile::TempDir;

/// A chain long enough to be killed in the middle: some tens of milliseconds per iteration.
const LONG: [&str; 12] = [
    "--data",
    "builtin:zipf:6000x600x100000",
    "--alpha",
    "4",
    "--rank",
    "6",
    "--epochs",
    "40",
    "--burn-in",
    "8",
    "--valid",
    "0.05",
];

/// The paths of a run's files.
struct Run(TempDir);

impl Run {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The flags of a run whose results and checkpoints are here.
    fn flags(&self, flags: &[&str]) -> Vec<String> {
        let place = |name: &str| self.path(name).to_str().unwrap().to_owned();
        let (cuts, export, report) = (place("cuts"), place("model"), place("report.json"));
        let own = ["--checkpoint", &cuts, "--export", &export, "--report", &report];
        flags.iter().chain(&own).map(|flag| (*flag).to_owned()).collect()
    }

    fn command(&self, flags: &[&str]) -> Command {
        let flags = self.flags(flags);
        BPMF.command(&flags.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Numbers of the checkpoints.
    fn cuts(&self) -> Vec<u64> {
        let entries = fs::read_dir(self.path("cuts")).into_iter().flatten().flatten();
        let committed = entries.filter(|entry| entry.path().join("manifest.json").exists());
        let mut cuts: Vec<u64> = committed
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("cut-")?.parse().ok())
            .collect();
        cuts.sort_unstable();
        cuts
    }

    /// Waits until checkpoint `number` exists; checkpoints that were removed count as well.
    fn await_cut(&self, child: &mut Child, number: u64) {
        while self.cuts().last().is_none_or(|newest| *newest < number) {
            assert!(child.try_wait().unwrap().is_none(), "it ended before checkpoint {number}");
            pause();
        }
    }

    fn report(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("report.json")).unwrap()).unwrap()
    }

    /// Losses, qualities and files, which must be equal bit by bit.
    fn outcome(&self) -> (Vec<u64>, Vec<Value>, Files) {
        let report = self.report();
        schema::check(&report, &QUALITY, 1);
        let history = fs::read_to_string(self.path("report.epochs.jsonl")).unwrap();
        schema::check_history(&history, &report);
        let epochs = report["epochs"].as_array().unwrap();
        let losses = epochs.iter().map(|epoch| number(&epoch["loss"]).to_bits()).collect();
        let qualities = epochs.iter().map(|epoch| &epoch["quality"]).chain([&report["test"]]).cloned();
        (losses, qualities.collect(), files(&self.path("model")))
    }
}

#[expect(clippy::disallowed_methods, reason = "another process makes what is waited for")]
fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn end(child: Child, code: i32) -> String {
    let output = finish(child);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

/// The outcome of an undisturbed chain.
fn undisturbed() -> (Vec<u64>, Vec<Value>, Files) {
    let run = Run::new();
    end(start(run.command(&LONG)), 0);
    let outcome = run.outcome();
    assert_eq!(outcome.0.len(), 40);
    assert_ne!(outcome.1[39], outcome.1[40], "validation and test entries are others");
    outcome
}

#[test]
fn a_chain_that_was_killed_goes_on_with_the_same_bits_on_any_number_of_nodes() {
    let expected = undisturbed();
    for (before, victim, exchange, after) in [
        (1, 0, "lapser-push", "4"),
        (2, 1, "lapser-pull", "2"),
        (4, 0, "lapser-push", "1"),
        (3, 2, "all-gather", "2"),
    ] {
        let run = Run::new();
        let flags = [&LONG[..], &["--exchange", exchange, "--checkpoint-seconds", "0.05"]].concat();
        let mut nodes: Vec<Child> = if before == 1 {
            vec![start(run.command(&flags))]
        } else {
            ranks((0..before).map(|_| run.command(&flags)).collect()).into_iter().map(start).collect()
        };
        run.await_cut(&mut nodes[0], 2);
        kill_process(Pid::from_child(&nodes[victim]), Signal::KILL).unwrap();
        for (rank, node) in nodes.into_iter().enumerate() {
            let output = finish(node);
            let code = if rank == victim { None } else { Some(4) };
            assert_eq!(output.status.code(), code, "node {rank} of {before}: {}", said(&output));
        }
        assert!(!run.path("model").exists(), "a run that failed exports nothing");
        let resumed = end(start(run.command(&[&LONG[..], &["--nodes", after, "--resume"]].concat())), 0);
        assert!(resumed.contains("resuming from "), "{resumed}");
        assert!(!resumed.contains("epoch  1/40"), "{resumed}");
        let what = format!("{exchange} on {before} nodes, then {after}");
        let outcome = run.outcome();
        assert_eq!((&outcome.0, &outcome.1), (&expected.0, &expected.1), "{what}");
        assert!(
            outcome.2 == expected.2,
            "the files of {what} differ from those of a chain that was not killed"
        );
        let report = run.report();
        assert!(report["checkpoints"]["count"].as_u64().unwrap() >= 3, "{what}: {report}");
        let of_epochs = report["epochs"].as_array().unwrap().iter();
        let of_epochs: u64 = of_epochs.filter_map(|epoch| epoch["one_sided"]["gets"].as_u64()).sum();
        let all = report["one_sided"]["gets"].as_u64().unwrap_or(0);
        assert!(all >= of_epochs && of_epochs > 0, "{what}: {of_epochs} of {all} gets");
    }
}

#[test]
fn a_signal_ends_all_nodes_after_a_last_checkpoint() {
    let expected = undisturbed();
    let run = Run::new();
    // No checkpoint is due before the signal.
    let flags = [&LONG[..], &["--checkpoint-seconds", "1000"]].concat();
    let mut nodes: Vec<Child> =
        ranks((0..2).map(|_| run.command(&flags)).collect()).into_iter().map(start).collect();
    let history = run.path("report.epochs.jsonl");
    while fs::read_to_string(&history).unwrap_or_default().lines().count() < 4 {
        assert!(nodes[0].try_wait().unwrap().is_none(), "it ended before the signal");
        pause();
    }
    kill_process(Pid::from_child(&nodes[1]), Signal::TERM).unwrap();
    for (rank, node) in nodes.into_iter().enumerate() {
        let said = end(node, 143);
        assert!(said.contains("interrupted by signal 15"), "{said}");
        assert_eq!(said.contains("--resume goes on from there"), rank == 0, "{said}");
    }
    assert_eq!(run.cuts(), [1]);
    end(start(run.command(&[&LONG[..], &["--nodes", "2", "--resume"]].concat())), 0);
    assert!(run.outcome() == expected);
}

#[test]
fn nodes_that_are_killed_start_again_by_themselves() {
    let expected = undisturbed();
    let run = Run::new();
    let flags = ["--nodes", "2", "--max-restarts", "1", "--checkpoint-seconds", "0.05"];
    let mut launcher = start(run.command(&[&LONG[..], &flags].concat()));
    run.await_cut(&mut launcher, 1);
    let parent = launcher.id().to_string();
    let is_node = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&parent)
            && environment.split(|byte| *byte == 0).any(|entry| entry == b"RANK=1")
    };
    let mut processes = fs::read_dir("/proc").unwrap().flatten();
    let node =
        processes.find_map(|entry| entry.file_name().to_str()?.parse().ok().filter(|pid| is_node(*pid)));
    kill_process(Pid::from_raw(node.expect("node 1") as i32).unwrap(), Signal::KILL).unwrap();
    let said = end(launcher, 0);
    assert!(said.contains("starting all nodes again") && said.contains("resuming from "), "{said}");
    assert!(run.outcome() == expected);
}

/// Changes a byte of a file.
fn damage(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let at = bytes.len() - 9;
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_damaged_checkpoint_is_passed_over_and_without_any_other_it_ends_all_nodes() {
    let run = Run::new();
    let few = [&SMALL[..], &["--epochs", "8", "--burn-in", "2", "--checkpoint-seconds", "0"]].concat();
    end(start(run.command(&[&few[..], &["--nodes", "2"]].concat())), 0);
    let (expected, cuts) = (run.outcome(), run.cuts());
    assert_eq!(cuts.len(), 2);
    let part = |cut: u64, part: u32| run.path(&format!("cuts/cut-{cut:06}/part-{part}.safetensors"));
    damage(&part(cuts[1], 1));
    let resumed = end(start(run.command(&[&few[..], &["--nodes", "3", "--resume"]].concat())), 0);
    assert!(
        resumed.contains("a newer checkpoint is passed over") && resumed.contains("part-1.safetensors"),
        "{resumed}"
    );
    assert!(run.outcome() == expected);
    for cut in run.cuts() {
        damage(&part(cut, 0));
    }
    let command = || run.command(&[&few[..], &["--resume"]].concat());
    end(start(command()), 5);
    for node in ranks(vec![command(), command()]).into_iter().map(start).collect::<Vec<_>>() {
        let said = end(node, 5);
        assert!(said.contains("is damaged at byte 0: the sum of its block 0"), "{said}");
    }
}

#[test]
fn a_chain_goes_on_for_longer_and_others_begin_with_its_sample() {
    let run = Run::new();
    let of = |epochs: &'static str| [&SMALL[..], &["--epochs", epochs]].concat();
    end(start(run.command(&of("12"))), 0);
    // The burn-in stays that of a chain of 12 iterations.
    end(start(run.command(&[&of("20")[..], &["--resume", "--nodes", "2"]].concat())), 0);
    let longer = run.outcome();
    let whole = Run::new();
    end(start(whole.command(&[&of("20")[..], &["--burn-in", "4"]].concat())), 0);
    assert!(whole.outcome() == longer);
    // A chain that is at its end has nothing to do.
    end(start(run.command(&[&of("20")[..], &["--resume", "--nodes", "2"]].concat())), 0);
    assert!(whole.outcome() == longer);

    let from = run.path("cuts");
    let begun = |flags: &[&str]| {
        let other = Run::new();
        let from = ["--from", from.to_str().unwrap(), "--burn-in", "0", "--seed", "7"];
        end(start(other.command(&[&of("1")[..], &from, flags].concat())), 0);
        other.outcome()
    };
    // A chain may begin with the sample of a chain with other test entries.
    let one = begun(&["--test", "0.1"]);
    assert!(begun(&["--test", "0.1", "--nodes", "3"]) == one);
    let initial = Run::new();
    end(
        start(initial.command(&[&of("1")[..], &["--burn-in", "0", "--seed", "7", "--test", "0.1"]].concat())),
        0,
    );
    let (warm, cold) = (f64::from_bits(one.0[0]), f64::from_bits(initial.outcome().0[0]));
    assert!(warm < 0.8 * cold, "the first iteration has a loss of {warm}, and {cold} from initial rows");
}

#[test]
fn checkpoints_that_do_not_fit_are_refused_with_the_reason() {
    let run = Run::new();
    // The flags without the rank.
    let small = &SMALL[..4];
    end(start(run.command(&[small, &["--rank", "6", "--epochs", "3"]].concat())), 0);
    let cuts = run.path("cuts");
    let cuts = cuts.to_str().unwrap();
    let place = ["--epochs", "3", "--checkpoint", cuts];
    for (flags, said) in [
        (&["--rank", "6"][..], "there are checkpoints of an earlier run; add --resume to continue it"),
        (
            &["--resume", "--rank", "6", "--seed", "2"],
            "--seed is 2 here and 1 there; --from begins a new run with its parameters",
        ),
        (&["--resume", "--rank", "7"], "--nu is 7.0 here and 6.0 there; name another folder"),
        (&["--resume", "--rank", "6", "--interval", "0.9"], "--interval is 0.9 here and 0.95 there"),
        (&["--resume", "--rank", "6", "--test", "0.2"], "--test is 0.2 here and absent there"),
    ] {
        let (code, error) = refused(&[small, &place, flags].concat());
        assert_eq!(code, Some(2), "{flags:?}: {error}");
        assert!(error.contains("--checkpoint") || error.contains("--resume: "), "{flags:?}: {error}");
        assert!(error.contains(said), "{flags:?}: {error}");
    }
    let (code, error) = refused(&[small, &["--rank", "7", "--from", cuts, "--nodes", "2"]].concat());
    assert_eq!(code, Some(2), "{error}");
    let said = "the model has 600 row of length 7, 100 column of length 7 here and 600 row of length 6, 100 column of \
                length 6 there";
    assert!(error.contains(said), "{error}");
}

/// Each side of a node is sent to node 0 in more than one piece.
#[test]
fn large_results_reach_node_0_in_pieces() {
    let model = |flags: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let export = folder.path().join("model");
        let size =
            ["--data", "builtin:uniform:9000x200x40000", "--rank", "64", "--epochs", "2", "--burn-in", "0"];
        let place = ["--export", export.to_str().unwrap()];
        let output = BPMF.output(&[&size[..], &place, &["-q"], flags].concat());
        assert!(output.status.success(), "{}", said(&output));
        files(&export)
    };
    let one = model(&[]);
    assert!(one.iter().any(|(name, bytes)| name == "row_mean.npy" && bytes.len() > 9000 * 64 * 8));
    assert!(model(&["--nodes", "3"]) == one);
    assert!(model(&["--nodes", "2", "--exchange", "lapser-pull"]) == one);
}

/// When the export is to be written, its folder is gone. The other nodes send their results nevertheless, and
/// the report is written.
#[test]
fn an_export_that_cannot_be_written_holds_up_no_node() {
    let run = Run::new();
    let place = run.path("place");
    fs::create_dir(&place).unwrap();
    let (export, report) = (place.join("model"), run.path("report.json"));
    let outputs = ["--export", export.to_str().unwrap(), "--report", report.to_str().unwrap()];
    let flags = [&LONG[..], &outputs].concat();
    let nodes = ranks((0..3).map(|_| BPMF.command(&flags)).collect());
    let mut nodes: Vec<Child> = nodes.into_iter().map(start).collect();
    let history = run.path("report.epochs.jsonl");
    while fs::read_to_string(&history).unwrap_or_default().lines().count() < 3 {
        assert!(nodes[0].try_wait().unwrap().is_none(), "it ended early");
        pause();
    }
    fs::remove_dir(&place).unwrap();
    fs::write(&place, "no folder").unwrap();
    for (rank, node) in nodes.into_iter().enumerate() {
        let said = end(node, i32::from(rank == 0));
        assert_eq!(said.contains("error: [rank 0] export failed: "), rank == 0, "{said}");
    }
    assert_eq!(run.report()["epochs"].as_array().unwrap().len(), 40);
}
