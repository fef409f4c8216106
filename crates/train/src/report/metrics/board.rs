//! What the threads of a node publish while they train, for the thread that is asked for it.
//!
//! Counters have the numbers of the report: they count what belongs to epochs, and stand still between them.
//! A worker publishes its own counts after each batch. What the node counts as a whole (messages, parameter
//! management, CPU time) is read when it is asked for: the state at the start of the epoch is subtracted, and
//! what earlier epochs took is added.

use super::place::Place;
use crate::report::numbers::means;
use crate::report::{EpochSum, Made};
use intendant::{AccessStats, ManagementStats, NetworkStats};
use intendant_core::{Amount, Statistics, lock};
use intendant_metrics::process;
use intendant_task::Progress;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// Marks that are kept.
const MARKS_MAX: usize = 1000;

/// The counts of a worker's accesses.
pub(super) const ACCESSES: usize = AccessStats::SHOWN.len();

/// What a worker publishes, which alone writes it. Relaxed throughout: each number is one for itself. Workers
/// must not share the cache lines that they write.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Share {
    pub(super) batches: AtomicU64,
    pub(super) examples: AtomicU64,
    /// In the order of [`AccessStats::SHOWN`].
    pub(super) accesses: [AtomicU64; ACCESSES],
    /// From 1.
    pub(super) epoch: AtomicU64,
    /// Examples of the epoch under way, and the bits of the sum of their losses.
    pub(super) epoch_examples: AtomicU64,
    pub(super) epoch_loss: AtomicU64,
    pub(super) prepared: AtomicU64,
    pub(super) operations: AtomicU64,
    pub(super) outstanding: AtomicU64,
}

/// What epochs took of the node as a whole.
#[derive(Clone, Default)]
pub(crate) struct Costs {
    pub(crate) seconds: f64,
    pub(crate) cpu_ns: u64,
    pub(crate) traffic: NetworkStats,
    pub(crate) management: ManagementStats,
}

impl Costs {
    pub(super) fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.cpu_ns += other.cpu_ns;
        self.traffic.merge(&other.traffic);
        self.management.merge(&other.management);
    }
}

/// The state of the node when the epoch under way began.
#[derive(Clone)]
pub(crate) struct Before {
    pub(crate) start: Instant,
    pub(crate) cpu_ns: u64,
    pub(crate) traffic: NetworkStats,
    pub(crate) management: ManagementStats,
}

/// The epochs of a node.
#[derive(Clone, Default)]
pub(crate) struct Epochs {
    /// What earlier ones took.
    pub(super) done: Costs,
    /// The one under way, if any.
    pub(super) running: Option<Before>,
    /// Starts and ends so far.
    pub(super) changes: u64,
}

impl Epochs {
    fn start(&mut self, before: Before) {
        self.running = Some(before);
        self.changes += 1;
    }

    /// The epoch under way has ended, and took so much.
    pub(crate) fn end(&mut self, costs: &Costs) {
        self.done.add(costs);
        self.running = None;
        self.changes += 1;
    }
}

/// Something that happened at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) at_unix_ms: u64,
    pub(super) what: Event,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event {
    /// The epoch of this number, from 1, has ended.
    Epoch(usize),
    /// The checkpoint of this number is committed.
    Checkpoint(u64),
    /// This node is lost.
    Lost(u16),
}

/// What changes rarely.
#[derive(Clone, Default)]
pub(super) struct News {
    pub(super) loss: Option<f64>,
    pub(super) quality: BTreeMap<String, f64>,
    pub(super) made: Option<Made>,
    /// Number and time of the newest checkpoint of this process.
    pub(super) newest: Option<(u64, u64)>,
    pub(super) lost: Option<u16>,
    /// Where the nodes serve their metrics.
    pub(super) peers: Vec<Option<String>>,
    pub(super) marks: VecDeque<Mark>,
}

impl News {
    fn mark(&mut self, what: Event) {
        if self.marks.len() == MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back(Mark { at_unix_ms: process::unix_ms(), what });
    }
}

/// What the threads of a node publish.
pub(crate) struct Board {
    pub(super) shares: Vec<Share>,
    pub(super) epochs: Mutex<Epochs>,
    pub(super) news: Mutex<News>,
}

impl Board {
    /// The board of a node with so many workers, in a cluster of so many nodes.
    pub(super) fn new(workers: usize, nodes: usize) -> Self {
        let news = News { peers: vec![None; nodes], ..News::default() };
        let shares = (0..workers).map(|_| Share::default()).collect();
        Self { shares, epochs: Mutex::default(), news: Mutex::new(news) }
    }

    /// Nodes have told where they serve their metrics.
    pub(crate) fn meet(&self, places: &[Option<Place>], host: &str) {
        lock(&self.news).peers =
            places.iter().map(|place| place.as_ref().and_then(|place| place.reached_from(host))).collect();
    }

    /// An epoch has ended on all nodes, evaluation included.
    pub(crate) fn epoch_ended(&self, epoch: usize, sum: &EpochSum) {
        let reduction = &sum.tally.reduction;
        let quality = means(reduction);
        let mut news = lock(&self.news);
        news.loss = Some(reduction.get("loss") / reduction.get("examples").max(1.0));
        if !quality.is_empty() {
            news.quality = quality;
        }
        news.mark(Event::Epoch(epoch));
    }

    /// The checkpoints that earlier runs have made, at the node that commits them.
    pub(crate) fn begin_checkpoints(&self, made: Made) {
        lock(&self.news).made = Some(made);
    }

    /// A checkpoint is committed.
    pub(crate) fn checkpoint(&self, number: u64, made: Made) {
        let mut news = lock(&self.news);
        news.made = Some(made);
        news.newest = Some((number, process::unix_ms()));
        news.mark(Event::Checkpoint(number));
    }

    /// A node is lost.
    pub(super) fn lost(&self, node: u16) {
        let mut news = lock(&self.news);
        if news.lost.is_none() {
            news.lost = Some(node);
            news.mark(Event::Lost(node));
        }
    }
}

/// How much work waits at a worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queues {
    /// Prepared batches.
    pub(crate) batches: usize,
    /// Operations under way, and their bytes in flight.
    pub(crate) operations: usize,
    pub(crate) bytes: usize,
}

/// A worker's access to the board.
pub(crate) struct Watch<'a> {
    board: &'a Board,
    share: &'a Share,
    /// What earlier epochs of this worker counted.
    accesses: AccessStats,
    batches: u64,
    examples: u64,
    /// The epoch under way, so far.
    progress: Progress,
}

impl<'a> Watch<'a> {
    /// Of the worker with this index.
    pub(crate) fn new(board: &'a Board, worker: usize) -> Self {
        Self {
            board,
            share: &board.shares[worker],
            accesses: AccessStats::default(),
            batches: 0,
            examples: 0,
            progress: Progress::default(),
        }
    }

    /// An epoch of the node begins.
    pub(crate) fn start(&self, before: impl FnOnce() -> Before) {
        let mut epochs = lock(&self.board.epochs);
        if epochs.running.is_none() {
            epochs.start(before());
        }
    }

    /// The epochs, to end the one under way. It is held until the costs are measured, or numbers that were
    /// read between would fall afterwards.
    pub(crate) fn end(&self) -> MutexGuard<'a, Epochs> {
        lock(&self.board.epochs)
    }

    /// A batch has been trained; `accesses` are those of the epoch so far.
    pub(crate) fn batch(&mut self, progress: &Progress, accesses: AccessStats, queues: Queues) {
        self.progress = *progress;
        let share = self.share;
        let set = |number: &AtomicU64, value: u64| number.store(value, Ordering::Relaxed);
        set(&share.batches, self.batches + progress.batches);
        set(&share.examples, self.examples + progress.examples);
        set(&share.epoch, u64::from(progress.epoch) + 1);
        set(&share.epoch_examples, progress.examples);
        set(&share.epoch_loss, progress.loss.to_bits());
        set(&share.prepared, queues.batches as u64);
        self.publish(accesses, queues);
    }

    /// The worker's part of the epoch is over.
    pub(crate) fn epoch(&mut self, accesses: AccessStats) {
        self.publish(accesses, Queues::default());
        self.accesses.merge(&accesses);
        let Progress { batches, examples, .. } = std::mem::take(&mut self.progress);
        self.batches += batches;
        self.examples += examples;
    }

    fn publish(&self, accesses: AccessStats, queues: Queues) {
        let mut sum = self.accesses;
        sum.merge(&accesses);
        let share = self.share;
        let set = |number: &AtomicU64, value: u64| number.store(value, Ordering::Relaxed);
        let counts = sum.amounts().flat_map(Amount::numbers);
        share.accesses.iter().zip(counts).for_each(|(number, count)| set(number, *count));
        set(&share.operations, queues.operations as u64);
        set(&share.outstanding, queues.bytes as u64);
    }
}
