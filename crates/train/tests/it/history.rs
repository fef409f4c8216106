//! The history of a run: each epoch's results, written when it ends.

use crate::command_line::{Folder, end, output, pid, regression, report, succeeded};
use intendant_apptest::{finish, schema, start};
use intendant_train::Report;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("whole lines of JSON")).collect()
}

#[track_caller]
fn check(report: &Path) {
    let found = serde_json::from_slice(&std::fs::read(report).expect("a report")).expect("JSON");
    let history = std::fs::read_to_string(report.with_extension("epochs.jsonl")).expect("a history");
    schema::check_history(&history, &found);
}

#[test]
fn the_history_is_that_of_the_report() {
    let folder = Folder::new();
    let path = folder.path("r.json");
    for flags in [
        "--technique single --epochs 3 --valid-every 2",
        "--technique full-replication --nodes 2 --epochs 2",
        "--technique lapse --simulate --nodes 2 --epochs 2 --bound epoch",
        "--technique single --epochs 0",
    ] {
        succeeded(&output(&format!("{flags} --report {}", path.display())));
        check(&path);
    }
    succeeded(&output("--technique single --epochs 1 -q --report /dev/null"));
}

#[test]
fn a_run_that_is_killed_has_its_history_and_one_that_resumes_continues_it() {
    let folder = Folder::new();
    let (path, checkpoints) = (folder.path("r.json"), folder.path("checkpoints"));
    let history = folder.path("r.epochs.jsonl");
    let flags = format!(
        "--technique single --epochs 12 --checkpoint {} --checkpoint-seconds 0 --resume --report {}",
        checkpoints.display(),
        path.display()
    );
    for epochs in [3, 6, 9] {
        let mut child = start(regression(&flags));
        // The first line is the run itself.
        while child.try_wait().expect("its state").is_none() && lines_now(&history) <= epochs {
            let (_keep, nothing) = mpsc::channel::<()>();
            let _ = nothing.recv_timeout(Duration::from_millis(1));
        }
        // It may have ended meanwhile.
        let _ = kill_process(pid(&child), Signal::KILL);
        let _ = child.wait();
        let found = lines(&history);
        assert_eq!(found[0]["schema"], "intendant.history/1");
        let numbers = found[1..].iter().filter_map(|line| line.get("epoch")?.as_u64());
        assert!(numbers.eq(1..=12.min(found.len() as u64 - 1)), "each epoch once, in order: {found:?}");
        assert!(found.len() > epochs, "the epochs so far are there");
    }
    assert!(!path.exists() || lines(&history).len() == 14, "a run without an end has no report");
    succeeded(&output(&flags));
    check(&path);
    // Nothing is trained any more, and the history stays what it is.
    succeeded(&output(&flags));
    check(&path);
}

/// Lines that are in the file now; the last one may be under way.
fn lines_now(path: &Path) -> usize {
    std::fs::read(path).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
}

/// The example in a process that can write files of two kibibytes and no longer ones.
fn on_a_small_disk(flags: &str) -> Command {
    let program = regression("");
    let program = program.get_program().to_str().expect("UTF-8");
    let mut command = intendant_apptest::command("/bin/bash");
    let script = format!("trap '' XFSZ; ulimit -f 2; exec {program} {flags}");
    command.args(["-c", &script]);
    command
}

#[test]
fn a_full_disk_costs_neither_the_training_nor_the_results() {
    let folder = Folder::new();
    let path = folder.path("r.json");
    let flags = format!("--technique single --epochs 6 -q --report {}", path.display());
    let ended = finish(start(on_a_small_disk(&flags)));
    let (code, said) = end(&ended);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("cannot write") && said.contains("r.json"), "{said}");
    assert_eq!(said.matches("the training goes on").count(), 1, "one warning: {said}");
    let shown = said.lines().find(|line| line.starts_with('{')).expect("the report on standard error");
    let shown: Report = serde_json::from_str(shown).expect("a report");
    assert_eq!(shown.epochs.len(), 6);
    assert!(String::from_utf8_lossy(&ended.stdout).contains("test squared_error"));
    assert!(!path.exists());
    let kept = lines(&folder.path("r.epochs.jsonl"));
    assert!((1..7).contains(&kept.len()), "what fitted, in whole lines: {kept:?}");

    // The same run where it fits, and where the history alone does not.
    succeeded(&output(&flags));
    let history = folder.path("r.epochs.jsonl");
    std::fs::remove_file(&history).expect("there");
    std::os::unix::fs::symlink("/dev/full", &history).expect("linked");
    let ended = output(&flags);
    succeeded(&ended);
    assert_eq!(end(&ended).1.matches("the training goes on").count(), 1, "{}", end(&ended).1);
    assert_eq!(report(&path).epochs.len(), 6);
}

#[test]
fn a_history_that_cannot_be_written_or_would_replace_an_input_is_refused() {
    let folder = Folder::new();
    let (path, history) = (folder.path("r.json"), folder.path("r.epochs.jsonl"));
    std::fs::write(&history, "epochs = 1\n").expect("written");
    let flags = format!("--technique single --report {}", path.display());
    let (code, said) = end(&output(&format!("{flags} --config {}", history.display())));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("would write the results of epochs over"), "{said}");
    std::fs::remove_file(&history).expect("there");
    std::fs::create_dir(&history).expect("a folder in the way");
    let (code, said) = end(&output(&flags));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("this is a folder"), "{said}");
}
