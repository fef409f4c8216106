//! Four real processes over TCP, hammering the same keys: their histories, put together, are sequentially consistent per key.
//!
//! The test starts this same binary again: once as a launcher ([`role_launcher`]), which starts it as nodes ([`role_node`]).
//! Every node records what its workers did and saw; the checker is the simulator's.
#![cfg(target_os = "linux")]

use intendant::launch::Launch;
use intendant::{Error, Key, KeyOrder, Layout, Node, NodeConfig, Order, Rendezvous, Storage, Ticket, Worker};
use intendant_core::random::{mix, stream};
use intendant_sim::history::{History, RecordId};
use intendant_sim::lanes;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const NODES: usize = 4;
const WORKERS: usize = 2;
const ALL: usize = NODES * WORKERS;
const KEYS: u64 = 24;
/// Calls of each worker. Most go to few keys, so that operations meet.
const CALLS: u64 = 3_000;
/// Asynchronous operations that a worker has under way at most.
const AHEAD: usize = 6;

const DIR: &str = "HISTORY_TEST_DIR";
const MODE: &str = "HISTORY_TEST_MODE";

#[derive(Clone, Copy)]
struct Mode {
    asynchronous: bool,
    order: Order,
    storage: Storage,
    channels: usize,
}

impl Mode {
    const ALL: [(&str, Self); 4] = [
        ("sync", Self { asynchronous: false, order: Order::Fifo, storage: Storage::Dense, channels: 1 }),
        (
            "sync-chain",
            Self { asynchronous: false, order: Order::Chain, storage: Storage::Sparse, channels: 2 },
        ),
        ("async", Self { asynchronous: true, order: Order::Fifo, storage: Storage::Sparse, channels: 2 }),
        (
            "async-chain",
            Self { asynchronous: true, order: Order::Chain, storage: Storage::Dense, channels: 1 },
        ),
    ];
}

fn layout(mode: Mode) -> Layout {
    // Two lengths, so that offsets matter.
    let builder = Layout::builder().range("short", KEYS / 2, ALL + 1).range("long", KEYS / 2, 3 * ALL + 5);
    builder.shards(8).channels(mode.channels).order(KeyOrder::Random).seed(3).build().unwrap()
}

/// What a worker waits for.
struct Pull {
    ticket: Ticket,
    keys: Vec<Key>,
    records: Vec<RecordId>,
}

struct Recorder {
    me: usize,
    history: History,
    layout: Layout,
}

impl Recorder {
    fn elements(&self, keys: &[Key]) -> usize {
        keys.iter().map(|key| self.layout.len(*key)).sum()
    }

    fn pulled(&mut self, keys: &[Key], records: &[RecordId], values: &[f32]) {
        let (mut at, mut seen) = (0, [0; ALL]);
        for (key, record) in keys.iter().zip(records) {
            let len = self.layout.len(*key);
            lanes::read(*key, &values[at..at + len], &mut seen).unwrap();
            self.history.pulled(*record, &seen, None);
            at += len;
        }
    }

    fn finish(&mut self, worker: &mut Worker<f32>, pull: Pull) -> Result<(), Error> {
        let mut values = vec![0.0; self.elements(&pull.keys)];
        worker.wait_pull(pull.ticket, &mut values)?;
        self.pulled(&pull.keys, &pull.records, &values);
        Ok(())
    }

    fn work(&mut self, worker: &mut Worker<f32>, mode: Mode) -> Result<(), Error> {
        let mut ahead: VecDeque<Pull> = VecDeque::new();
        let mut pushes = Vec::new();
        for call in 0..CALLS {
            let word = stream(9, &[self.me as u64, call]);
            let count = 1 + word % 4;
            let keys: Vec<Key> = (0..count)
                .map(|i| {
                    let word = mix(word ^ mix(i));
                    Key(if word.is_multiple_of(3) { word / 3 % KEYS } else { word / 3 % 3 * 7 })
                })
                .collect();
            let records: Vec<RecordId>;
            if word >> 40 & 1 == 0 {
                let mut update = Vec::new();
                keys.iter().for_each(|key| lanes::push(self.me, ALL, self.layout.len(*key), &mut update));
                records = keys.iter().map(|key| self.history.push(self.me, *key, None)).collect();
                if mode.asynchronous {
                    pushes.push((worker.push_async(&keys, &update)?, records));
                } else {
                    worker.push(&keys, &update)?;
                    records.into_iter().for_each(|record| self.history.pushed(record, None));
                }
            } else {
                records = keys.iter().map(|key| self.history.pull(self.me, *key, None)).collect();
                if mode.asynchronous {
                    let ticket = worker.pull_async(&keys)?;
                    ahead.push_back(Pull { ticket, keys, records });
                    if ahead.len() > AHEAD
                        && let Some(pull) = ahead.pop_front()
                    {
                        self.finish(worker, pull)?;
                    }
                } else {
                    let mut values = vec![0.0; self.elements(&keys)];
                    worker.pull(&keys, &mut values)?;
                    self.pulled(&keys, &records, &values);
                }
            }
        }
        for pull in ahead {
            self.finish(worker, pull)?;
        }
        for (ticket, records) in pushes {
            worker.wait(ticket)?;
            records.into_iter().for_each(|record| self.history.pushed(record, None));
        }
        worker.quiesce()?;
        if self.me == 0 {
            let (layout, mut finals) = (self.layout.clone(), Vec::new());
            worker.snapshot(0..KEYS, &mut |keys, values| {
                let (mut at, mut seen) = (0, [0; ALL]);
                for key in keys {
                    let len = layout.len(*key);
                    lanes::read(*key, &values[at..at + len], &mut seen).unwrap();
                    finals.push((*key, seen));
                    at += len;
                }
            })?;
            assert_eq!(finals.len() as u64, KEYS);
            finals.iter().for_each(|(key, seen)| self.history.ended(*key, seen));
        }
        worker.barrier("recorded")
    }
}

#[test]
#[ignore = "the program that the test starts"]
fn role_node() {
    let dir = PathBuf::from(std::env::var_os(DIR).expect("started by a test"));
    let name = std::env::var(MODE).unwrap();
    let (_, mode) = Mode::ALL.into_iter().find(|(n, _)| *n == name).unwrap();
    let rendezvous = Rendezvous::from_env().unwrap().unwrap();
    let rank = rendezvous.rank().index();
    let mut config = NodeConfig::<f32>::new(layout(mode), std::sync::Arc::new(lanes::initial));
    (config.workers, config.order, config.storage) = (WORKERS, Some(mode.order), mode.storage);
    // Little enough that workers also wait for admission.
    config.outstanding_bytes = 4096;
    let mut node = Node::join(config, rendezvous).unwrap();
    std::thread::scope(|scope| {
        for mut worker in node.workers() {
            let dir = &dir;
            scope.spawn(move || {
                let me = rank * WORKERS + worker.id().index();
                let mut recorder = Recorder { me, history: History::new(ALL), layout: layout(mode) };
                recorder.work(&mut worker, mode).unwrap();
                let mut file = BufWriter::new(File::create(dir.join(format!("history.{me}"))).unwrap());
                recorder.history.write(&mut file).unwrap();
                file.flush().unwrap();
            });
        }
    });
    node.shutdown().unwrap();
}

#[test]
#[ignore = "the program that the test starts"]
fn role_launcher() {
    let this = std::env::current_exe().unwrap();
    std::process::exit(Launch::new(NODES, this).args(role("role_node")).run().unwrap().into());
}

fn role(name: &str) -> [&str; 4] {
    ["--ignored", "--exact", "--nocapture", name]
}

#[test]
fn histories_of_four_processes_are_sequentially_consistent_per_key() {
    for (name, _) in Mode::ALL {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(role("role_launcher")).env(DIR, dir.path()).env(MODE, name).stdout(Stdio::null());
        assert!(command.status().unwrap().success(), "{name}: the cluster failed");
        let read = |me| fs::read_to_string(dir.path().join(format!("history.{me}"))).unwrap();
        let mut files: Vec<String> = (0..ALL).map(read).collect();
        let history = together(&files);
        assert!(history.len() as u64 > ALL as u64 * CALLS);
        history.check().unwrap_or_else(|error| panic!("{name}: {error}"));

        // The check can fail: with the answers to two pulls of one worker exchanged it does.
        files[1] = exchanged(&files[1]);
        assert!(together(&files).check().is_err(), "{name}: an inconsistent history passes");
    }
}

fn together(files: &[String]) -> History {
    let mut history = History::new(ALL);
    files.iter().for_each(|file| history.read(file.as_bytes()).unwrap());
    history
}

/// Two pulls of one key that saw different things saw them in the other order.
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
