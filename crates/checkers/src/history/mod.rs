//! Histories of pushes and pulls, and whether they are sequentially consistent per key.
//!
//! Values are *version lanes* ([`crate::lanes`]): the `n`-th push of worker `w` to a key sets lane `w` to
//! `n`, so a pull sees a version vector. Whether one order of all operations on a key explains every pull can
//! therefore be decided exactly and in linear time ([`History::check`]). If records have times, the order
//! must also agree with real time (linearizability): an operation that ended before another one started comes
//! first.
//!
//! Simulations and real processes record the same way. [`History::write`] and [`History::read`] store
//! histories in files, one per process, which are read into one history.

mod check;
mod text;

pub use check::{Inconsistency, Summary};
pub use text::TextError;

use intendant_core::Key;

/// Start time of an operation whose start is unknown.
const EARLIEST: u64 = 0;
/// End time of an operation whose end is unknown.
const LATEST: u64 = u64::MAX;

/// Identifies an outstanding operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordId(u32);

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// Adds 1 to the worker's lane.
    Push,
    /// Reads the lanes that start at this index of `History::lanes`; `None` while they are unknown.
    Pull(Option<u32>),
}

/// An operation of one worker on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    key: Key,
    worker: u32,
    operation: Operation,
    /// Whether the worker knows that it is done.
    done: bool,
    start: u64,
    end: u64,
}

/// Operations of all workers, with the values that pulls saw. The records of a worker are in program order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    workers: u32,
    records: Vec<Record>,
    lanes: Vec<u32>,
    /// Final values: key, and start index in `lanes`.
    finals: Vec<(Key, u32)>,
}

impl History {
    /// An empty history of `workers` workers of the whole cluster.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self { workers: workers as u32, ..Self::default() }
    }

    /// Number of workers, and of lanes.
    pub fn workers(&self) -> usize {
        self.workers as usize
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether the history has no operations.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn start(&mut self, worker: usize, key: Key, operation: Operation, start: Option<u64>) -> RecordId {
        assert!(worker < self.workers(), "worker {worker} of {}", self.workers);
        let id = RecordId(self.records.len() as u32);
        let start = start.unwrap_or(EARLIEST);
        self.records.push(Record { key, worker: worker as u32, operation, done: false, start, end: LATEST });
        id
    }

    /// Records the start of a push. `start` is a time of a clock that all workers share.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn push(&mut self, worker: usize, key: Key, start: Option<u64>) -> RecordId {
        self.start(worker, key, Operation::Push, start)
    }

    /// Records the end of a push.
    ///
    /// # Panics
    /// If `id` is not from this history.
    pub fn pushed(&mut self, id: RecordId, end: Option<u64>) {
        let record = &mut self.records[id.0 as usize];
        (record.done, record.end) = (true, end.unwrap_or(LATEST));
    }

    /// Records the start of a pull.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn pull(&mut self, worker: usize, key: Key, start: Option<u64>) -> RecordId {
        self.start(worker, key, Operation::Pull(None), start)
    }

    /// Records the end of a pull and the lanes that it saw.
    ///
    /// # Panics
    /// If `id` is not from this history, or `lanes` does not have one element per worker.
    pub fn pulled(&mut self, id: RecordId, lanes: &[u32], end: Option<u64>) {
        let at = self.keep(lanes);
        let record = &mut self.records[id.0 as usize];
        (record.operation, record.done, record.end) =
            (Operation::Pull(Some(at)), true, end.unwrap_or(LATEST));
    }

    /// Records the final value of a key.
    ///
    /// # Panics
    /// If `lanes` does not have one element per worker.
    pub fn ended(&mut self, key: Key, lanes: &[u32]) {
        let at = self.keep(lanes);
        self.finals.push((key, at));
    }

    fn keep(&mut self, lanes: &[u32]) -> u32 {
        assert_eq!(lanes.len(), self.workers(), "a lane per worker");
        let at = self.lanes.len() as u32;
        self.lanes.extend_from_slice(lanes);
        at
    }

    fn lanes_at(&self, at: u32) -> &[u32] {
        &self.lanes[at as usize..at as usize + self.workers()]
    }
}
