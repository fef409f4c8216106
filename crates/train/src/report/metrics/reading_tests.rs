//! Readings of a node whose answers the tests choose.

use super::super::board::{Before, Queues, Watch};
use super::*;
use crate::run::meter::Meter;
use crate::run::single;
use intendant::{Failure, ManagementStats, NetworkStats, NodeId};
use intendant_core::{Initialiser, Layout};
use intendant_sampling::{Sampler, SamplingStats};
use intendant_task::Progress;
use std::sync::atomic::AtomicUsize;

type Act = Box<dyn Fn(&Board, usize) + Send + Sync>;

/// A node that has sent one more message whenever it is asked.
struct Scripted {
    board: Arc<Board>,
    asked: AtomicUsize,
    /// What happens when it is asked for its management, the how many-th time from 0.
    act: Act,
    has_ended: bool,
}

impl Observe for Scripted {
    fn traffic(&self) -> NetworkStats {
        NetworkStats { messages: self.asked.load(Ordering::SeqCst) as u64, ..NetworkStats::default() }
    }

    fn management(&self) -> Option<ManagementStats> {
        (self.act)(&self.board, self.asked.fetch_add(1, Ordering::SeqCst));
        (!self.has_ended).then(ManagementStats::default)
    }

    fn sampling(&self) -> SamplingStats {
        SamplingStats::default()
    }

    fn held(&self) -> usize {
        7
    }

    fn inbox_commands(&self) -> usize {
        0
    }

    fn failure(&self) -> Option<Failure> {
        self.has_ended.then(|| Failure::lost(NodeId(2), "died"))
    }
}

fn reading(workers: usize, has_ended: bool, act: Act) -> Reading {
    let board = Arc::new(Board::new(workers, 3));
    let node = Scripted { board: Arc::clone(&board), asked: AtomicUsize::new(0), act, has_ended };
    let run = Run {
        program: "x".to_owned(),
        version: "1".to_owned(),
        technique: "lapse",
        task: "x".to_owned(),
        rank: 1,
        nodes: 3,
        workers,
        epochs: 5,
    };
    Reading::new(run, board, Arc::new(node))
}

fn before() -> Before {
    Before {
        start: now(),
        cpu_ns: process::cpu_ns(),
        traffic: NetworkStats::default(),
        management: ManagementStats::default(),
    }
}

fn messages(count: u64) -> Costs {
    Costs { traffic: NetworkStats { messages: count, ..NetworkStats::default() }, ..Costs::default() }
}

fn value(reading: &Reading, name: &str) -> Option<f64> {
    let samples = reading.read();
    let sample = samples.iter().find(|sample| sample.metric.name == name)?;
    match &sample.value {
        Value::Number(value) => Some(*value),
        Value::Buckets(_) => None,
    }
}

const SENT: &str = "intendant_sent_messages_total";

#[test]
fn what_is_sent_between_epochs_does_not_count() {
    let reading = reading(1, false, Box::new(|_, _| {}));
    assert_eq!(value(&reading, SENT), Some(0.0), "no epoch is under way");
    let board = Arc::clone(&reading.board);
    let watch = Watch::new(&board, 0);
    watch.start(before);
    assert_eq!((value(&reading, SENT), value(&reading, SENT)), (Some(1.0), Some(2.0)));
    watch.end().end(&messages(5));
    assert_eq!((value(&reading, SENT), value(&reading, SENT)), (Some(5.0), Some(5.0)));
    watch.start(|| Before { traffic: messages(2).traffic, ..before() });
    assert_eq!(value(&reading, SENT), Some(6.0), "five, and the third message but for two");
}

#[test]
fn an_epoch_that_ends_during_a_reading_counts_what_it_took() {
    let ends_first = Box::new(|board: &Board, asked| {
        if asked == 0 {
            lock(&board.epochs).end(&messages(0));
        }
    });
    let reading = reading(1, false, ends_first);
    Watch::new(&Arc::clone(&reading.board), 0).start(before);
    // The message was sent after the end.
    assert_eq!(value(&reading, SENT), Some(0.0));
}

#[test]
fn epochs_that_end_all_the_time_are_read_nevertheless() {
    let restarts = Box::new(|board: &Board, _| {
        // While a reading holds the epochs, none ends.
        if let Ok(mut epochs) = board.epochs.try_lock() {
            epochs.end(&messages(0));
            drop(epochs);
            Watch::new(board, 0).start(before);
        }
    });
    let reading = reading(1, false, restarts);
    Watch::new(&Arc::clone(&reading.board), 0).start(before);
    assert_eq!(value(&reading, SENT), Some(4.0), "the fourth attempt");
}

#[test]
fn a_lost_node_is_marked_once_and_no_counter_falls() {
    let mut reading = reading(1, false, Box::new(|_, _| {}));
    let board = Arc::clone(&reading.board);
    Watch::new(&board, 0).start(before);
    assert_eq!(value(&reading, SENT), Some(1.0));
    let act: Act = Box::new(|_, _| {});
    let ended = Scripted { board: Arc::clone(&board), asked: AtomicUsize::new(0), act, has_ended: true };
    reading.node = Arc::new(ended);
    assert_eq!(value(&reading, "intendant_lost_nodes"), Some(1.0));
    assert_eq!(value(&reading, SENT), Some(1.0), "the latest that could be read");
    let live = reading.describe();
    let marks = live["marks"].as_array().expect("a list");
    assert_eq!(marks.len(), 1);
    assert_eq!((&marks[0]["kind"], &marks[0]["node"]), (&json!("lost"), &json!(2)));
}

#[test]
fn counts_of_workers_go_on_from_epoch_to_epoch() {
    let reading = reading(2, false, Box::new(|_, _| {}));
    let board = Arc::clone(&reading.board);
    let mut workers = [Watch::new(&board, 0), Watch::new(&board, 1)];
    let accesses = |local| AccessStats { pull_keys: local, local, ..AccessStats::default() };
    let queues = Queues { batches: 3, operations: 2, bytes: 100 };
    for epoch in 0..2 {
        for worker in &mut workers {
            for batches in 1..=4 {
                let progress =
                    Progress { epoch, batches, batches_total: 4, examples: 10 * batches, loss: 1.0 };
                worker.batch(&progress, accesses(100 * batches), queues);
            }
        }
        let done = f64::from(epoch + 1);
        assert_eq!(value(&reading, "intendant_epoch"), Some(done));
        assert_eq!(value(&reading, "intendant_examples_total"), Some(80.0 * done));
        assert_eq!(value(&reading, "intendant_batches_total"), Some(8.0 * done));
        assert_eq!(value(&reading, "intendant_local_accesses_total"), Some(800.0 * done));
        assert_eq!(value(&reading, "intendant_prepared_batches"), Some(6.0));
        assert_eq!(value(&reading, "intendant_outstanding_bytes"), Some(200.0));
        assert_eq!(value(&reading, "intendant_epoch_loss"), Some(2.0 / 80.0));
        for worker in &mut workers {
            // Accesses of the last batch may have been answered later.
            worker.epoch(accesses(400));
        }
        assert_eq!(value(&reading, "intendant_local_accesses_total"), Some(800.0 * done));
        assert_eq!(value(&reading, "intendant_outstanding_operations"), Some(0.0), "all are answered");
    }
}

#[test]
fn accesses_between_epochs_do_not_count() {
    let reading = reading(1, false, Box::new(|_, _| {}));
    let board = Arc::clone(&reading.board);
    let layout = Layout::builder().range("only", 4, 1).build().expect("a layout");
    let init: Initialiser<f32> = Arc::new(|_, value: &mut [f32]| value.fill(0.0));
    let (node, _) = single::start(layout, &init, &Sampler::default(), 1, 1);
    let mut meter = Meter::new(true, &node, Some(Watch::new(&board, 0)));
    let accesses = |local| AccessStats { push_keys: local, local, ..AccessStats::default() };
    let pushed = || value(&reading, "intendant_pushed_keys_total");
    // An evaluation has made a thousand before each epoch.
    for (before, expected) in [(1_000, [10.0, 25.0]), (2_015, [35.0, 50.0])] {
        meter.rest();
        meter.begin(accesses(before));
        let progress = Progress { batches: 1, batches_total: 4, ..Progress::default() };
        meter.step(&progress, || accesses(before + 10), Queues::default);
        assert_eq!(pushed(), Some(expected[0]));
        // The last accesses are answered after the last batch.
        meter.flushed(accesses(before + 25));
        meter.quiesced();
        assert_eq!(pushed(), Some(expected[1]));
    }
}

#[test]
fn observations_are_in_the_buckets_whose_bounds_they_do_not_exceed() {
    let mut histogram = Histogram::default();
    [0, 15, 16, 63, 64, 1_000_000, u64::MAX / 4].into_iter().for_each(|us| histogram.record(us));
    let buckets = buckets(&histogram, Form::Durations);
    let filled: Vec<_> = buckets.counts.iter().filter(|(_, count)| *count > 0).copied().collect();
    assert_eq!(filled, [(16e-6, 2), (64e-6, 2), (256e-6, 1), (1.048_576, 1)]);
    assert_eq!(buckets.count, 7, "one is beyond the last bound");
    assert!(buckets.counts.is_sorted_by(|a, b| a.0 < b.0));
}
