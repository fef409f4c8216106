//! Real processes over TCP with copies of keys: no update is lost, copies become equal, and reads are as
//! fresh as promised. A node that dies ends all others, wherever they wait for it.
//!
//! The tests start this same binary again: once as a launcher ([`role_launcher`]), which starts it as nodes
//! ([`role_node`]).
#![cfg(target_os = "linux")]

use crate::replication::{KEYS, Pusher, Setting, bounded, phases};
use intendant::launch::Launch;
use intendant::{Error, Key, Node, Rendezvous, StaticReplicaPace, Storage, Technique, Worker};
use rustix::process::{Signal, getpid, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const DIR: &str = "COPIES_TEST_DIR";
/// The index of the mode in [`modes`].
const MODE: &str = "COPIES_TEST_MODE";
/// The node that dies in the middle of its work, if there is one.
const VICTIM: &str = "COPIES_TEST_VICTIM";
/// Many times as long as any part of these tests takes.
const SAFETY_NET: Duration = Duration::from_secs(100);

fn modes() -> Vec<Setting> {
    let of = Setting::new;
    let sparse = |technique| Setting { storage: Storage::Sparse, channels: 2, ..of(technique) };
    vec![
        of(Technique::Ssp),
        Setting { staleness: 3, ..sparse(Technique::Ssp) },
        Setting { staleness: 0, ..of(Technique::Essp) },
        sparse(Technique::Essp),
        of(Technique::Nups),
        of(Technique::Bips),
        sparse(Technique::FullReplication),
        Setting { pace: StaticReplicaPace::Asked, ..of(Technique::FullReplication) },
    ]
}

/// Ends this process if it is still there after [`SAFETY_NET`].
fn hang_no_longer() -> mpsc::Sender<()> {
    let (alive, ended) = mpsc::channel();
    std::thread::spawn(move || {
        if ended.recv_timeout(SAFETY_NET) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("this node hangs");
            std::process::exit(70);
        }
    });
    alive
}

/// The work of a worker. It calls `dies` after a third of the work.
fn work(worker: &mut Worker<f32>, setting: Setting, me: usize, dies: &dyn Fn()) -> Result<(), Error> {
    if setting.is_clocked() {
        bounded(worker, setting, me, 300, |clock| {
            if clock == 100 {
                dies();
            }
        })?;
    } else {
        in_step(worker, setting, me, dies)?;
    }
    worker.quiesce()?;
    if me == 0 {
        // Every worker knows all pushes of the workload that follows.
        let keys: Vec<Key> = (0..KEYS).map(Key).collect();
        let pusher = Pusher::new(setting, me);
        worker.set(&keys, &vec![0.0; pusher.elements(&keys)])?;
    }
    worker.quiesce()?;
    phases(worker, setting, me, 60).map(drop)
}

/// Pushes to replicated keys and synchronizes, again and again.
fn in_step(worker: &mut Worker<f32>, setting: Setting, me: usize, dies: &dyn Fn()) -> Result<(), Error> {
    let mut pusher = Pusher::new(setting, me);
    let keys: Vec<Key> = (0..KEYS).step_by(setting.replicated as usize).map(Key).collect();
    // If rounds run in the background, workers of other nodes may be in another round.
    let sure = if setting.pace == StaticReplicaPace::Asked { setting.all() as u64 } else { 1 };
    for round in 1..=60 {
        if round == 20 {
            dies();
        }
        let update = pusher.update(&keys, round);
        worker.push(&keys, &update)?;
        worker.synchronize()?;
        for value in pusher.read(worker, &keys)? {
            assert!(value[setting.all()] >= (sure * round) as f32, "{setting:?}: round {round}, {value:?}");
        }
        if setting.pace == StaticReplicaPace::Asked {
            worker.barrier("all have read")?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "the program that the tests start"]
fn role_node() {
    let _net = hang_no_longer();
    let dir = PathBuf::from(std::env::var_os(DIR).expect("started by a test"));
    let mode: usize = std::env::var(MODE).unwrap().parse().unwrap();
    let setting = modes()[mode];
    let rendezvous = Rendezvous::from_env().unwrap().unwrap();
    let rank = rendezvous.rank().index();
    let victim = std::env::var(VICTIM).is_ok_and(|victim| victim == rank.to_string());
    let mut node = Node::join(setting.config(), rendezvous).unwrap();
    let done: Result<(), Error> = std::thread::scope(|scope| {
        let working = |mut worker: Worker<f32>| {
            scope.spawn(move || {
                let me = rank * setting.workers + worker.id().index();
                let dies = || {
                    if victim {
                        kill_process(getpid(), Signal::KILL).unwrap();
                    }
                };
                work(&mut worker, setting, me, &dies)
            })
        };
        let threads: Vec<_> = node.workers().into_iter().map(working).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap())
    });
    if let Err(error) = done {
        fs::write(dir.join(format!("end.{rank}")), error.to_string()).unwrap();
        drop(node);
        std::process::exit(error.exit_code().into());
    }
    let management = node.management().unwrap();
    fs::write(dir.join(format!("node.{rank}")), management.synced_keys.to_string()).unwrap();
    node.shutdown().unwrap();
}

#[test]
#[ignore = "the program that the tests start"]
fn role_launcher() {
    let this = std::env::current_exe().unwrap();
    std::process::exit(
        Launch::new(Setting::new(Technique::Ssp).nodes, this)
            .args(role("replication_processes::role_node"))
            .run()
            .unwrap()
            .into(),
    );
}

fn role(name: &str) -> [&str; 4] {
    ["--ignored", "--exact", "--nocapture", name]
}

/// The command that starts the cluster. The caller waits for its end.
fn launcher(mode: usize, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(role("replication_processes::role_launcher"))
        .env(DIR, dir)
        .env(MODE, mode.to_string())
        .stdout(Stdio::null());
    command
}

#[test]
fn nothing_is_lost_and_reads_are_fresh_enough() {
    for (mode, setting) in modes().into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        assert!(launcher(mode, dir.path()).status().unwrap().success(), "{setting:?}: the cluster failed");
        for rank in 0..setting.nodes {
            let synced = fs::read_to_string(dir.path().join(format!("node.{rank}"))).unwrap();
            assert!(synced.parse::<u64>().unwrap() > KEYS, "{setting:?}: node {rank} synced {synced} keys");
        }
    }
}

/// The node dies while others wait for its clock, and while they wait in a synchronisation.
#[test]
fn a_node_that_dies_ends_all_others_with_an_error() {
    for (mode, setting) in modes().into_iter().enumerate().filter(|(mode, _)| [0, 2, 6].contains(mode)) {
        let dir = tempfile::tempdir().unwrap();
        let status = launcher(mode, dir.path()).env(VICTIM, "2").stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(4), "{setting:?}: the launcher says that a peer was lost");
        for rank in [0, 1] {
            let end = fs::read_to_string(dir.path().join(format!("end.{rank}")));
            let end = end.unwrap_or_else(|_| panic!("{setting:?}: node {rank} left no word"));
            assert!(end.starts_with("node 2 "), "{setting:?}: node {rank} said '{end}'");
        }
    }
}
