//! Nodes over RDMA. Without a network card, the tests report this and pass; if `REQUIRE_VERBS` is set, as in
//! `scripts/rxe.sh`, they fail.

use super::nodes::{ended_with, exchanged, outcome};
use super::{BPMF, SMALL};
use intendant_apptest::{Authority, Certificate, finish, ranks, start};
use rustix::process::Signal;
use rustix::thread::{
    CapabilitySet, LinkNameSpaceType, capabilities, move_into_link_name_space,
    remove_capability_from_bounding_set, set_capabilities,
};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::process::{Child, Command, Output};
use std::thread;
use std::time::Duration;

/// The output of a node that uses RDMA.
const USED: &str = "over RDMA, by ";

/// A secret of the cluster.
const TOKEN: &str = "8f4b0c6d1e2a3b5c7d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e";

/// The time within which the others notice a killed node.
const MISSED: Duration = Duration::from_secs(10);

/// Whether there is a network card. Its absence is a failure if `REQUIRE_VERBS` is set.
fn has_card() -> bool {
    let found = fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some());
    if !found {
        assert!(std::env::var_os("REQUIRE_VERBS").is_none(), "there is no RDMA device");
        eprintln!("skipped: there is no RDMA device");
    }
    found
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Two nodes, started by the test one by one.
fn two(flags: &[&str], change: impl FnMut(&mut Command)) -> Vec<Command> {
    two_of(&SMALL, flags, change)
}

fn two_of(size: &[&str], flags: &[&str], change: impl FnMut(&mut Command)) -> Vec<Command> {
    let commands = (0..2).map(|_| BPMF.command(&[size, &["--epochs", "3", "-v"], flags].concat()));
    let mut commands = ranks(commands.collect());
    commands.iter_mut().for_each(change);
    commands
}

#[test]
fn nodes_over_rdma_compute_the_bits_of_one() {
    if !has_card() {
        return;
    }
    let one = outcome(&["--nodes", "1"]);
    for exchange in ["lapser-push", "lapser-pull"] {
        for memory in ["shm", "verbs"] {
            let flags = ["--nodes", "2", "--exchange", exchange, "--memory", memory];
            let two = outcome(&flags);
            assert_eq!((&two.0, &two.1), (&one.0, &one.1), "{flags:?}");
            assert!(two.2 == one.2, "the files of {flags:?} differ from those of one node");
            let (reads, writes) = (exchanged(&two.3, "reads"), exchanged(&two.3, "writes"));
            assert_eq!((reads > 0, writes > 0), (exchange == "lapser-pull", exchange == "lapser-push"));
        }
    }
}

#[test]
fn nodes_of_one_host_use_rdma_only_if_they_are_told_to() {
    if !has_card() {
        return;
    }
    for (memory, uses) in [("verbs", true), ("auto", false), ("shm", false)] {
        for child in two(&["--memory", memory], |_| ()).into_iter().map(start).collect::<Vec<_>>() {
            let output = finish(child);
            let text = text(&output);
            assert_eq!((output.status.code(), text.contains(USED)), (Some(0), uses), "{memory}: {text}");
        }
    }
}

/// In two network namespaces, as on two hosts. `ELSEWHERE` is a process of the other namespace, in which node
/// 0 has the address `MASTER`.
#[test]
fn nodes_that_cannot_map_memory_use_rdma_unless_connections_are_encrypted() {
    let (Ok(elsewhere), Ok(master)) = (std::env::var("ELSEWHERE"), std::env::var("MASTER")) else {
        eprintln!("skipped: no other network namespace");
        return;
    };
    if !has_card() {
        return;
    }
    let certificates = tempfile::tempdir().unwrap();
    let tls = Authority::new().issue(certificates.path(), "node", Certificate::Good).flags();
    let encrypted = "encrypted (TLS), which RDMA is not; --memory verbs uses it nevertheless";
    let shm = ["--memory".to_owned(), "shm".to_owned()];
    for (flags, code, said) in
        [(&[][..], 0, USED), (&shm, 2, "cannot map the memory of node"), (&tls, 2, encrypted)]
    {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let commands = two(&flags, |command| {
            command.env("MASTER_ADDR", &master).env("INTENDANT_TOKEN", TOKEN);
        });
        let there = File::open(format!("/proc/{elsewhere}/ns/net")).unwrap();
        // The processes that a thread starts are in the thread's namespace.
        let starts = |(rank, command): (usize, Command)| {
            thread::scope(|scope| {
                let started = scope.spawn(|| {
                    if rank == 1 {
                        move_into_link_name_space(there.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                    }
                    start(command)
                });
                started.join().unwrap()
            })
        };
        let children: Vec<Child> = commands.into_iter().enumerate().map(starts).collect();
        for output in children.into_iter().map(finish) {
            let text = text(&output);
            assert_eq!(output.status.code(), Some(code), "{flags:?}: {text}");
            assert!(text.contains(said), "{flags:?}: {text}");
        }
    }
}

#[test]
fn a_killed_node_ends_the_others_by_name() {
    if !has_card() {
        return;
    }
    for (exchange, victim) in [("lapser-push", 1), ("lapser-pull", 1), ("lapser-push", 0)] {
        let flags = ["--memory", "verbs", "--exchange", exchange];
        let (all, took) = ended_with(&[&SMALL[..], &flags].concat(), 2, victim, Signal::KILL);
        let (code, text) = &all[1 - victim];
        assert_eq!(*code, Some(4), "{exchange}: {text}");
        let name = format!("node {victim}");
        let says = |line: &&str| line.starts_with("bpmf: error: ") && line.contains(&name);
        assert_eq!(text.lines().filter(says).count(), 1, "{exchange}: {text}");
        assert!(took < MISSED, "{exchange}: {took:?}");
        eprintln!("{exchange}: node {victim} was missed within {took:?}");
    }
}

/// Root may lock any amount because of a capability, which a thread and the processes that it starts can give
/// up.
fn with_little_locked_memory(command: Command) -> Command {
    let mut limited = intendant_apptest::command("sh");
    limited.args(["-c", "ulimit -l 64 && exec \"$0\" \"$@\""]).arg(command.get_program());
    limited.args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            limited.env(name, value);
        }
    }
    limited
}

#[test]
fn memory_beyond_the_limit_is_refused_with_the_limit() {
    if !has_card() {
        return;
    }
    let starts = || {
        remove_capability_from_bounding_set(CapabilitySet::IPC_LOCK).unwrap();
        let mut sets = capabilities(None).unwrap();
        for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
            set.remove(CapabilitySet::IPC_LOCK);
        }
        set_capabilities(None, sets).unwrap();
        let size = ["--data", "builtin:zipf:3000x1000x20000", "--rank", "8"];
        let commands = two_of(&size, &["--memory", "verbs"], |_| ());
        commands.into_iter().map(with_little_locked_memory).map(start).collect::<Vec<Child>>()
    };
    let children = thread::scope(|scope| scope.spawn(starts).join().unwrap());
    for output in children.into_iter().map(finish) {
        let text = text(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            text.contains("this process may lock 65536 bytes. Raise the limit (ulimit -l unlimited"),
            "{text}"
        );
    }
}

/// `scripts/rxe.sh` removes the card for this test, and sets `REQUIRE_NO_VERBS`.
#[test]
fn without_a_card_nodes_say_what_they_looked_for() {
    if fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some()) {
        assert!(std::env::var_os("REQUIRE_NO_VERBS").is_none(), "there is an RDMA device");
        eprintln!("skipped: there is an RDMA device");
        return;
    }
    for child in two(&["--memory", "verbs"], |_| ()).into_iter().map(start).collect::<Vec<_>>() {
        let output = finish(child);
        let text = text(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            text.contains("cannot use RDMA: no RDMA device: looked in /sys/class/infiniband_verbs"),
            "{text}"
        );
    }
    // A single node needs no card.
    let output = BPMF.output(&[&SMALL[..], &["--epochs", "1", "--memory", "verbs"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}
