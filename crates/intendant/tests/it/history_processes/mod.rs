//! Four real processes, connected by Unix sockets or TCP, access the same keys as fast as they can. The keys
//! stay where they are, or move. The combined history of the processes is sequentially consistent per key.
//!
//! The tests start this same binary again: once as a launcher ([`role_launcher`]), which starts it as nodes
//! ([`role_node`]). Every node records what its workers did and saw, and the cost of managing keys. The
//! checkers are those of the simulator.
#![cfg(target_os = "linux")]

mod notes;
mod work;

use intendant::launch::Launch;
use intendant::{
    Error, Key, KeyOrder, Layout, Links, Node, NodeConfig, Order, Rendezvous, Storage, Technique, Transport,
};
use intendant_checkers::history::History;
use intendant_checkers::lanes;
use intendant_checkers::registers::Registers;
use notes::NodeNotes;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use work::Recorder;

const NODES: usize = 4;
const WORKERS: usize = 2;
const ALL: usize = NODES * WORKERS;
/// Keys whose values count pushes. After them come registers, whose values are overwritten.
const LANES: u64 = 24;
const REGISTERS: u64 = 2;
const KEYS: u64 = LANES + REGISTERS;
/// Calls of each worker. Most calls access few keys, so that operations meet.
const CALLS: u64 = 3_000;

const DIR: &str = "HISTORY_TEST_DIR";
const MODE: &str = "HISTORY_TEST_MODE";
/// The node that dies in the middle of its work, if there is one.
const VICTIM: &str = "HISTORY_TEST_VICTIM";
/// The longest time that a node may take; a hundred times the time that it does take.
const SAFETY_NET: Duration = Duration::from_secs(100);

#[derive(Clone, Copy)]
struct Mode {
    name: &'static str,
    technique: Technique,
    asynchronous: bool,
    caches: bool,
    order: Order,
    storage: Storage,
    channels: usize,
    transport: Transport,
}

const CLASSIC: Mode = Mode {
    name: "classic-sync",
    technique: Technique::Classic,
    asynchronous: false,
    caches: false,
    order: Order::Fifo,
    storage: Storage::Dense,
    channels: 1,
    transport: Transport::Auto,
};
const LAPSE: Mode = Mode { name: "lapse-sync", technique: Technique::Lapse, ..CLASSIC };

const CLASSIC_MODES: [Mode; 4] = [
    CLASSIC,
    Mode {
        name: "classic-sync-chain",
        order: Order::Chain,
        storage: Storage::Sparse,
        channels: 2,
        transport: Transport::Unix,
        ..CLASSIC
    },
    Mode {
        name: "classic-async",
        asynchronous: true,
        storage: Storage::Sparse,
        channels: 2,
        transport: Transport::Tcp,
        ..CLASSIC
    },
    Mode { name: "classic-async-chain", asynchronous: true, order: Order::Chain, ..CLASSIC },
];
/// The modes of the papers that are sequentially consistent per key [thesis Tab. 3.2], and location caches
/// with chained operations.
const LAPSE_MODES: [Mode; 4] = [
    LAPSE,
    Mode { name: "lapse-sync-caches", caches: true, storage: Storage::Sparse, channels: 2, ..LAPSE },
    Mode {
        name: "lapse-async",
        asynchronous: true,
        storage: Storage::Sparse,
        channels: 2,
        transport: Transport::Unix,
        ..LAPSE
    },
    Mode {
        name: "lapse-async-caches",
        asynchronous: true,
        caches: true,
        order: Order::Chain,
        transport: Transport::Tcp,
        ..LAPSE
    },
];

fn layout(mode: Mode) -> Layout {
    // Three lengths, so that offsets matter.
    let builder = Layout::builder().range("short", LANES / 2, ALL + 1).range("long", LANES / 2, 3 * ALL + 5);
    let builder = builder.range("register", REGISTERS, 3).shards(8).channels(mode.channels);
    builder.order(KeyOrder::Random).seed(3).build().unwrap()
}

fn config(mode: Mode) -> NodeConfig<f32> {
    let init = |key: Key, value: &mut [f32]| {
        if key.0 < LANES { lanes::initial(key, value) } else { Registers::initial(value) }
    };
    let mut config = NodeConfig::new(layout(mode), Arc::new(init));
    (config.cluster.technique, config.cluster.caches, config.cluster.order) =
        (mode.technique, Some(mode.caches), Some(mode.order));
    (config.workers, config.cluster.storage) = (WORKERS, mode.storage);
    config.transport = mode.transport;
    // The limit is so low that workers also wait for admission.
    config.outstanding_bytes = 4096;
    config
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

#[test]
#[ignore = "the program that the tests start"]
fn role_node() {
    let _net = hang_no_longer();
    let dir = PathBuf::from(std::env::var_os(DIR).expect("started by a test"));
    let name = std::env::var(MODE).unwrap();
    let mode = *CLASSIC_MODES.iter().chain(&LAPSE_MODES).find(|mode| mode.name == name).unwrap();
    let rendezvous = Rendezvous::from_env().unwrap().unwrap();
    let rank = rendezvous.rank().index();
    let dies = std::env::var(VICTIM).is_ok_and(|victim| victim == rank.to_string());
    let mut node = Node::join(config(mode), rendezvous).unwrap();
    let links = (NODES - 1) * mode.channels;
    let local = cfg!(target_os = "linux");
    let expected = if local && mode.transport == Transport::Auto {
        Links { shm: links, ..Links::default() }
    } else if local && mode.transport == Transport::Unix {
        Links { unix: links, ..Links::default() }
    } else {
        Links { tcp: links, ..Links::default() }
    };
    assert_eq!(node.links(), expected);
    let looked: Result<Vec<[u64; 3]>, Error> = std::thread::scope(|scope| {
        let work = |mut worker: intendant::Worker<f32>| {
            let dir = &dir;
            scope.spawn(move || {
                let me = rank * WORKERS + worker.id().index();
                let mut recorder = Recorder::new(me, layout(mode), mode.asynchronous);
                recorder.work(&mut worker, dies.then_some(CALLS / 3))?;
                recorder.write(dir);
                Ok([recorder.here, recorder.elsewhere, worker.access().windows])
            })
        };
        let threads: Vec<_> = node.workers().into_iter().map(work).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    match looked {
        Ok(looked) => NodeNotes::of(&node, &looked).write(&dir, rank),
        Err(error) => {
            fs::write(dir.join(format!("end.{rank}")), error.to_string()).unwrap();
            drop(node);
            std::process::exit(error.exit_code().into());
        }
    }
    node.shutdown().unwrap();
}

#[test]
#[ignore = "the program that the tests start"]
fn role_launcher() {
    let this = std::env::current_exe().unwrap();
    std::process::exit(
        Launch::new(NODES, this).args(role("history_processes::role_node")).run().unwrap().into(),
    );
}

fn role(name: &str) -> [&str; 4] {
    ["--ignored", "--exact", "--nocapture", name]
}

/// The command that starts the cluster. The caller waits for its end.
fn launcher(mode: Mode, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(role("history_processes::role_launcher"))
        .env(DIR, dir)
        .env(MODE, mode.name)
        .stdout(Stdio::null());
    command
}

/// Runs a cluster and checks what its workers saw. Returns the sum of its nodes' notes.
fn consistent(mode: Mode) -> NodeNotes {
    let (dir, name) = (tempfile::tempdir().unwrap(), mode.name);
    assert!(launcher(mode, dir.path()).status().unwrap().success(), "{name}: the cluster failed");
    let read = |kind: &str, me| fs::read_to_string(dir.path().join(format!("{kind}.{me}"))).unwrap();
    let mut files: Vec<String> = (0..ALL).map(|me| read("history", me)).collect();
    let history = together(&files);
    assert!(history.len() as u64 > ALL as u64 * CALLS / 2);
    let summary = history.check().unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(summary.keys as u64, LANES, "{name}: every key was used");
    // The check can fail: it does so if the answers to two pulls of one worker are exchanged.
    files[1] = exchanged(&files[1]);
    assert!(together(&files).check().is_err(), "{name}: an inconsistent history passes");

    let mut files: Vec<String> = (0..ALL).map(|me| read("registers", me)).collect();
    notes::check_registers(&files).unwrap_or_else(|error| panic!("{name}: {error}"));
    files[1] = notes::with_a_comeback(&files[1]);
    assert!(notes::check_registers(&files).is_err(), "{name}: an overwritten value may come back");

    let nodes: Vec<NodeNotes> = (0..NODES).map(|rank| NodeNotes::read(&read("node", rank))).collect();
    let sum = nodes.iter().fold(NodeNotes::default(), |sum, node| sum.plus(node));
    assert_eq!(sum.held, KEYS, "{name}: each key has one owner");
    let has_windows = mode.transport != Transport::Tcp;
    assert!(if has_windows { sum.windows > KEYS } else { sum.windows == 0 }, "{name}: {sum:?}");
    sum
}

#[test]
fn histories_are_consistent_if_keys_stay() {
    for mode in CLASSIC_MODES {
        let NodeNotes { relocations, messages, .. } = consistent(mode);
        assert_eq!(relocations, 0, "{}: no worker moves keys", mode.name);
        assert!(messages > 0);
    }
}

#[test]
fn histories_are_consistent_while_keys_move() {
    for mode in LAPSE_MODES {
        let name = mode.name;
        let sum = consistent(mode);
        // The bounds are far below the usual counts, but too high to be reached by chance.
        assert!(sum.relocations > 10 * KEYS, "{name}: {sum:?}");
        assert!(sum.conflicts > KEYS && sum.queued > KEYS && sum.forwarded > KEYS, "{name}: {sum:?}");
        // A worker asked for every relocation, and every worker that waited for a key has got it.
        assert_eq!(
            (sum.relocation_times, sum.blocking_times),
            (sum.relocations, sum.queued),
            "{name}: {sum:?}"
        );
        assert!(sum.here > KEYS && sum.elsewhere > KEYS, "{name}: {sum:?}");
    }
}

#[test]
fn a_node_that_dies_while_keys_move_ends_all_others_with_an_error() {
    for mode in [LAPSE_MODES[0], LAPSE_MODES[3]] {
        let (dir, name) = (tempfile::tempdir().unwrap(), mode.name);
        let status = launcher(mode, dir.path()).env(VICTIM, "2").stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(4), "{name}: the launcher says that a peer was lost");
        for rank in [0, 1, 3] {
            let end = fs::read_to_string(dir.path().join(format!("end.{rank}")));
            let end = end.unwrap_or_else(|_| panic!("{name}: node {rank} left no word"));
            assert!(end.starts_with("node 2 "), "{name}: node {rank} said '{end}'");
        }
    }
}

fn together(files: &[String]) -> History {
    let mut history = History::new(ALL);
    files.iter().for_each(|file| history.read(file.as_bytes()).unwrap());
    history
}

/// Exchanges two pulls of one key that saw different values.
fn exchanged(file: &str) -> String {
    let mut lines: Vec<&str> = file.lines().collect();
    let pulls: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with("pull ")).collect();
    let key = |line: &str| line.split_whitespace().nth(2).map(str::to_owned);
    let (a, b) = pulls
        .iter()
        .flat_map(|a| pulls.iter().map(move |b| (*a, *b)))
        .find(|(a, b)| a < b && key(lines[*a]) == key(lines[*b]) && lines[*a] != lines[*b])
        .expect("two pulls of one key that saw different things");
    lines.swap(a, b);
    lines.join("\n")
}
