//! Runs that start again by themselves after a node was killed.

use crate::checkpoint::{Run, assert_same_course, pause};
use crate::command_line::{end, output, pid, regression, succeeded};
use intendant_apptest::{finish, ranks, start};
use rustix::process::{Pid, Signal, kill_process};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Child;

/// The process of a node, among the children of a launcher. Waits until there is one other than `before`.
pub(crate) fn node(launcher: &mut Child, rank: u16, before: Option<Pid>) -> Option<Pid> {
    let parent = launcher.id().to_string();
    let variable = format!("RANK={rank}");
    let is_node = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&parent)
            && environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    };
    loop {
        let processes = std::fs::read_dir("/proc").expect("a list of processes");
        let mut numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let found = numbers.find(|pid| is_node(*pid)).and_then(|pid| Pid::from_raw(pid as i32));
        if found.is_some() && found != before {
            return found;
        }
        if launcher.try_wait().expect("its state").is_some() {
            return None;
        }
        pause();
    }
}

/// Whether a node has joined its cluster: its workers have started.
pub(crate) fn has_joined(node: Pid) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", node.as_raw_pid()));
    threads.into_iter().flatten().flatten().any(|thread| {
        std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.starts_with("worker-"))
    })
}

/// Kills a node when it has joined and `ready` says so; returns it, or nothing if the run ended before.
fn kill(launcher: &mut Child, rank: u16, before: Option<Pid>, ready: impl Fn() -> bool) -> Option<Pid> {
    let victim = node(launcher, rank, before)?;
    while !has_joined(victim) || !ready() {
        if launcher.try_wait().expect("its state").is_some() {
            return None;
        }
        pause();
    }
    kill_process(victim, Signal::KILL).ok().map(|()| victim)
}

#[test]
fn a_run_goes_on_by_itself_whichever_node_is_killed() {
    let undisturbed = Run::new(12);
    succeeded(&output(&format!("--nodes 3 {}", undisturbed.outputs())));
    for rank in 0..3 {
        let run = Run::new(12);
        let flags = run.flags("--nodes 3 --max-restarts 1");
        let mut launcher = start(regression(&flags.replace("-seconds 0", "-seconds 0.02")));
        let first = kill(&mut launcher, rank, None, || !run.cuts().is_empty());
        // The count starts anew with a newer checkpoint. The launcher has heard of it when there is another
        // one: one thread writes both.
        let cuts = || run.cuts().last().copied().unwrap_or(0);
        let (before, newer) = (cuts(), RefCell::new(BTreeSet::new()));
        let ready = || {
            let mut newer = newer.borrow_mut();
            newer.extend(Some(cuts()).filter(|cut| *cut > before));
            newer.len() > 1
        };
        let second = first.and_then(|first| kill(&mut launcher, rank, Some(first), ready));
        let ended = finish(launcher);
        succeeded(&ended);
        let said = end(&ended).1;
        let restarts = said.matches("launch: starting all nodes again (restart 1 of 1 in a row)").count();
        assert!(first.is_some() && restarts >= 1, "{said}");
        assert!(restarts >= usize::from(second.is_some()), "{said}");
        assert!(said.contains("resuming from"), "{said}");
        assert_same_course(&undisturbed.report(), &run.report());
        let (one, other) = (undisturbed.report().test, run.report().test);
        assert!(one["squared_error"] < 0.01 && other["squared_error"] < 0.01, "{one:?} {other:?}");
    }
}

#[test]
fn restarts_are_bounded_and_follow_only_what_they_may_mend() {
    let run = Run::new(100_000);
    let flags = run.flags("--nodes 2 --max-restarts 1").replace("-seconds 0", "-seconds 3600");
    let mut launcher = start(regression(&flags));
    let first = kill(&mut launcher, 1, None, || true);
    kill(&mut launcher, 1, first, || true).expect("it was started again");
    let (code, said) = end(&finish(launcher));
    assert_eq!(code, Some(4), "{said}");
    assert_eq!(said.matches("launch: starting all nodes again").count(), 1, "{said}");

    let diverging = Run::new(3);
    let (code, said) = end(&output(&diverging.flags("--nodes 2 --max-restarts 5 --rate 1e30")));
    assert_eq!(code, Some(3), "{said}");
    assert!(!said.contains("again"), "{said}");

    let (code, said) = end(&output("--nodes 2 --max-restarts 5"));
    assert!(code == Some(2) && said.contains("add --checkpoint DIR"), "{code:?} {said}");
}

#[test]
fn a_single_process_is_started_again_as_well() {
    let undisturbed = Run::new(20);
    succeeded(&output(&undisturbed.outputs()));
    let run = Run::new(20);
    let mut launcher = start(regression(&run.flags("--technique single --max-restarts 1")));
    let killed = kill(&mut launcher, 0, None, || !run.cuts().is_empty());
    let ended = finish(launcher);
    succeeded(&ended);
    assert!(killed.is_some() && end(&ended).1.contains("again"), "{:?}", end(&ended));
    assert!(run.model() == undisturbed.model(), "another model");
}

#[test]
fn restarts_are_left_to_another_launcher() {
    let run = Run::new(1);
    let mut command = regression(&run.flags("--max-restarts 1"));
    command.env("RANK", "0").env("WORLD_SIZE", "2").env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", "1");
    let (code, said) = end(&finish(start(command)));
    assert!(code == Some(2) && said.contains("another launcher has started this process"), "{code:?} {said}");
}

#[test]
fn a_signal_makes_a_last_checkpoint_from_which_the_run_goes_on() {
    let undisturbed = Run::new(40);
    succeeded(&output(&undisturbed.outputs()));
    for (signal, code, cluster) in [
        (Signal::INT, 130, "--nodes 1"),
        (Signal::TERM, 143, "--nodes 1 --technique single"),
        (Signal::USR1, 138, "--nodes 1 --max-restarts 3"),
        (Signal::TERM, 143, "--nodes 3 --max-restarts 3"),
    ] {
        let run = Run::new(40);
        // No checkpoint but the last one.
        let flags = run.flags(&format!("--resume {cluster}")).replace("-seconds 0", "-seconds 3600");
        let mut child = start(regression(&flags));
        let is_launched = cluster != "--nodes 1" && !cluster.contains("single");
        let worker = if is_launched { node(&mut child, 0, None) } else { Some(pid(&child)) };
        while !has_joined(worker.expect("it runs")) {
            pause();
        }
        kill_process(pid(&child), signal).expect("it runs");
        let (found, said) = end(&finish(child));
        assert_eq!(found, Some(code), "{cluster}: {said}");
        assert!(
            said.contains("has what was trained so far: --resume goes on from there"),
            "{cluster}: {said}"
        );
        assert!(said.contains("has no checkpoint yet; a new run begins"), "{cluster}: {said}");
        assert_eq!(run.cuts().len(), 1, "{cluster}: {said}");
        assert!(!run.folder.path("r.json").exists() && !said.contains("again"), "{cluster}: {said}");
        succeeded(&output(&flags));
        assert_same_course(&undisturbed.report(), &run.report());
        assert!(
            cluster.contains("3 --max") || run.model() == undisturbed.model(),
            "{cluster}: another model"
        );
    }
}

#[test]
fn without_time_for_a_last_checkpoint_there_is_none() {
    let run = Run::new(100_000);
    let flags = run.flags("--grace-seconds 0").replace("-seconds 0 ", "-seconds 3600 ");
    let child = start(regression(&flags));
    while !has_joined(pid(&child)) {
        pause();
    }
    kill_process(pid(&child), Signal::INT).expect("it runs");
    let (code, said) = end(&finish(child));
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("interrupted by signal 2"), "{said}");
    assert!(said.contains("there is no last checkpoint") && run.cuts().is_empty(), "{said}");
}

#[test]
fn a_closed_terminal_ends_a_run_after_a_last_checkpoint_and_nohup_keeps_it() {
    let is_ignored = intendant::launch::ignores_hang_up();
    if is_ignored {
        eprintln!("SIGHUP is not tried without nohup: these tests were started to ignore it");
    }
    for nodes in [1, 2].into_iter().filter(|_| !is_ignored) {
        let run = Run::new(100_000);
        let flags = run.flags(&format!("--nodes {nodes}")).replace("-seconds 0 ", "-seconds 3600 ");
        let mut child = start(regression(&flags));
        while !(if nodes == 1 { Some(pid(&child)) } else { node(&mut child, 0, None) })
            .is_some_and(has_joined)
        {
            pause();
        }
        kill_process(pid(&child), Signal::HUP).expect("it runs");
        let (code, said) = end(&finish(child));
        assert_eq!(code, Some(129), "{nodes} nodes: {said}");
        assert!(said.contains("interrupted by signal 1") && !run.cuts().is_empty(), "{nodes} nodes: {said}");
    }
    let run = Run::new(3);
    let example = regression("").get_program().to_owned();
    let mut command = intendant_apptest::command("nohup");
    command.arg(example).args(run.flags("--nodes 2").split_whitespace());
    let mut child = start(command);
    while node(&mut child, 0, None).is_some_and(|node| !has_joined(node)) {
        pause();
    }
    // It may have ended meanwhile.
    let _ = kill_process(pid(&child), Signal::HUP);
    succeeded(&finish(child));
}

#[test]
fn all_nodes_begin_where_node_0_does() {
    let run = Run::new(3);
    succeeded(&output(&run.flags("--technique classic")));
    // The checkpoint that an earlier run makes while it ends.
    let later = Run::new(5);
    copy(&run.checkpoints(), &later.checkpoints());
    succeeded(&output(&later.flags("--technique classic --resume")));
    let newest = *later.cuts().last().expect("checkpoints");
    assert!(newest > *run.cuts().last().expect("checkpoints"));

    // The earlier run lives, and has the folder.
    let lock = File::options().write(true).open(run.checkpoints().join(".lock")).expect("a lock");
    lock.lock().expect("locked");
    let (report, epochs) = (run.folder.path("later.json"), 7);
    let flags = |report: &str| {
        let checkpoint = format!("--checkpoint {} --resume", run.checkpoints().display());
        let cluster = "--technique classic --nodes 2 -v";
        regression(&format!("--float f64 {cluster} --epochs {epochs} {checkpoint} {report}"))
    };
    let mut nodes = ranks(vec![flags(&format!("--report {}", report.display())), flags("")]);
    let other = start(nodes.pop().expect("two"));
    let mut first = start(nodes.pop().expect("two"));
    // Both have joined: node 0 says what it waits for.
    let mut log = BufReader::new(first.stderr.take().expect("piped"));
    let mut said = String::new();
    while !said.contains("waiting for its end") {
        assert_ne!(log.read_line(&mut said).expect("a log"), 0, "{said}");
    }
    let place = format!("cut-{newest:06}");
    copy(&later.checkpoints().join(&place), &run.checkpoints().join(&place));
    drop(lock);
    log.read_to_string(&mut said).expect("a log");
    assert_eq!((finish(first).status.code(), finish(other).status.code()), (Some(0), Some(0)), "{said}");
    assert!(said.contains(&format!("{place} (")), "{said}");
    let report = crate::command_line::report(&report);
    assert_eq!(report.epochs.len(), epochs);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("created");
    for entry in std::fs::read_dir(from).expect("listed") {
        let entry = entry.expect("an entry");
        let place = to.join(entry.file_name());
        if entry.file_type().expect("its type").is_dir() {
            copy(&entry.path(), &place);
        } else {
            std::fs::copy(entry.path(), place).expect("copied");
        }
    }
}

#[test]
fn nodes_without_the_same_folder_end_before_anything_is_written() {
    let earlier = Run::new(3);
    succeeded(&output(&earlier.flags("--nodes 2")));
    let newest = *earlier.cuts().last().expect("checkpoints");
    let part = format!("cut-{newest:06}/part-1.safetensors");
    let history = earlier.folder.path("r.epochs.jsonl");
    let lines = std::fs::read(&history).expect("a history");
    let elsewhere = Run::new(3);
    let ended = |code, reason: &str| {
        let flags =
            |run: &Run| regression(&run.flags("--resume --nodes 2").replace("--epochs 3", "--epochs 5"));
        let nodes = ranks(vec![flags(&earlier), flags(&elsewhere)]);
        let nodes: Vec<_> = nodes.into_iter().map(start).collect();
        for node in nodes {
            let (found, said) = end(&finish(node));
            assert_eq!(found, Some(code), "{said}");
            assert!(said.contains(reason), "{said}");
        }
        assert!(std::fs::read(&history).expect("a history") == lines, "results of the earlier run are gone");
    };
    ended(2, "which is not here; all nodes need the same folder");
    // The same one, damaged.
    let place = format!("cut-{newest:06}");
    copy(&earlier.checkpoints().join(&place), &elsewhere.checkpoints().join(&place));
    let file = elsewhere.checkpoints().join(&part);
    let mut bytes = std::fs::read(&file).expect("a part");
    *bytes.last_mut().expect("values") ^= 1;
    std::fs::write(&file, bytes).expect("written");
    ended(5, "part-1.safetensors is damaged at byte 0");
}
