//! Histories of pushes and pulls, and whether they are sequentially consistent per key.
//!
//! Values are *version lanes* ([`crate::lanes`]): worker `w`'s `n`-th push on a key adds 1 to lane `w`, so
//! what a pull sees is a version vector, and whether there is one order of all operations on a key that
//! explains every pull can be decided exactly, in linear time ([`History::check`]). If records carry times,
//! the order must also agree with real time (linearizability): an operation that ended before another one
//! started comes first.
//!
//! Simulations and real processes record alike; [`History::write`] and [`History::read`] carry histories
//! through files, one per process, to be read into one.

mod check;
mod text;

pub use check::{Inconsistency, Summary};
pub use text::TextError;

use intendant_core::Key;

/// A time that says nothing: of a start that happened at any time.
const EARLIEST: u64 = 0;
/// A time that says nothing: of an end that happened at any time.
const LATEST: u64 = u64::MAX;

/// Names an operation of a history that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordId(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Adds 1 to the worker's lane.
    Push,
    /// Reads the lanes that start here in `History::lanes`; `None` as long as they are not known.
    Pull(Option<u32>),
}

/// An operation of one worker on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    key: Key,
    worker: u32,
    what: What,
    /// Whether the worker learnt that it is done.
    done: bool,
    start: u64,
    end: u64,
}

/// What workers did and saw. Records of a worker are in the order in which it issued the operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    workers: u32,
    records: Vec<Record>,
    lanes: Vec<u32>,
    /// Final values: keys and where their lanes start.
    finals: Vec<(Key, u32)>,
}

impl History {
    /// An empty history of `workers` workers, numbered over the whole cluster.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self { workers: workers as u32, ..Self::default() }
    }

    /// Number of workers, which is the number of lanes.
    pub fn workers(&self) -> usize {
        self.workers as usize
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn start(&mut self, worker: usize, key: Key, what: What, start: Option<u64>) -> RecordId {
        assert!(worker < self.workers(), "worker {worker} of {}", self.workers);
        let id = RecordId(self.records.len() as u32);
        let start = start.unwrap_or(EARLIEST);
        self.records.push(Record { key, worker: worker as u32, what, done: false, start, end: LATEST });
        id
    }

    /// A worker issues a push to `key`. `start` is the time, on a clock that all workers share.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn push(&mut self, worker: usize, key: Key, start: Option<u64>) -> RecordId {
        self.start(worker, key, What::Push, start)
    }

    /// A worker learns that its push is done.
    ///
    /// # Panics
    /// If `id` is not from this history.
    pub fn pushed(&mut self, id: RecordId, end: Option<u64>) {
        let record = &mut self.records[id.0 as usize];
        (record.done, record.end) = (true, end.unwrap_or(LATEST));
    }

    /// A worker issues a pull of `key`.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn pull(&mut self, worker: usize, key: Key, start: Option<u64>) -> RecordId {
        self.start(worker, key, What::Pull(None), start)
    }

    /// A worker learns what its pull saw.
    ///
    /// # Panics
    /// If `id` is not from this history, or `lanes` does not have one element per worker.
    pub fn pulled(&mut self, id: RecordId, lanes: &[u32], end: Option<u64>) {
        let at = self.keep(lanes);
        let record = &mut self.records[id.0 as usize];
        (record.what, record.done, record.end) = (What::Pull(Some(at)), true, end.unwrap_or(LATEST));
    }

    /// What a key's value is after everything has come to rest.
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
