//! Decides whether a history is sequentially consistent per key.
//!
//! On one key, the following order is required: operations of a worker in program order; push `k` of worker
//! `v` before every pull that sees at least `k` in lane `v`; a pull that sees `k` there before push `k + 1`
//! of `v`. The history is consistent if and only if these edges form no cycle, because then any order that
//! respects them is a valid execution.
//!
//! The edges are not stored. Each worker has a position in its program, and the check executes operations
//! whose predecessors have been executed: a pull when every lane has as many pushes as it sees, a push when
//! every pull that sees one less has been executed. If no operation can be executed before all are, the
//! remaining ones contain a cycle.

use super::{History, LATEST, Operation, Record};
use intendant_core::Key;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Numbers of checked operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Keys with operations.
    pub keys: usize,
    /// Pushes.
    pub pushes: usize,
    /// Pulls with known values.
    pub pulls: usize,
}

impl Summary {
    /// The sum with the numbers of other keys.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        let (keys, pushes) = (self.keys + other.keys, self.pushes + other.pushes);
        Self { keys, pushes, pulls: self.pulls + other.pulls }
    }
}

/// A history that no execution explains.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Inconsistency {
    /// A pull sees pushes that were never issued: a push was applied twice, or to another worker's lane.
    #[error("{pull} sees {seen} pushes of worker {lane}, which pushed {pushed} times")]
    Phantom {
        /// The pull.
        pull: String,
        /// The worker whose pushes these are.
        lane: usize,
        /// How many it sees.
        seen: u32,
        /// How many it has issued.
        pushed: u32,
    },
    /// A pull does not see exactly its worker's earlier pushes.
    #[error("{pull} sees {seen} of the worker's own {pushed} earlier pushes")]
    OwnPushes {
        /// The pull.
        pull: String,
        /// How many it sees.
        seen: u32,
        /// How many the worker had issued before.
        pushed: u32,
    },
    /// A pull sees fewer pushes than an earlier pull of the same worker.
    #[error(
        "{pull} sees {seen} pushes of worker {lane}, but an earlier pull of the same worker saw {before}"
    )]
    Backwards {
        /// The pull.
        pull: String,
        /// The worker whose pushes these are.
        lane: usize,
        /// How many it sees.
        seen: u32,
        /// How many were seen before.
        before: u32,
    },
    /// Operations whose required order is cyclic.
    #[error("no order of the operations on {key:?} explains what was seen:\n{cycle}")]
    Cycle {
        /// The key.
        key: Key,
        /// The operations of the cycle, one line each.
        cycle: String,
    },
    /// The final value lacks pushes, or has pushes twice.
    #[error(
        "the final value of {key:?} has {found} pushes of worker {lane}, which issued {issued} and saw {acknowledged} done"
    )]
    Final {
        /// The key.
        key: Key,
        /// The worker whose pushes these are.
        lane: usize,
        /// How many the value has.
        found: u32,
        /// How many were issued: upper bound.
        issued: u32,
        /// How many were acknowledged: lower bound.
        acknowledged: u32,
    },
}

impl Inconsistency {
    /// Whether only the order of operations is wrong: final values have every push once.
    #[must_use]
    pub const fn is_of_order(&self) -> bool {
        match self {
            Self::OwnPushes { .. } | Self::Backwards { .. } | Self::Cycle { .. } => true,
            Self::Phantom { .. } | Self::Final { .. } => false,
        }
    }
}

impl History {
    /// Checks the rules that do not depend on order: final values have every push once (eventual
    /// consistency), and no pull sees more pushes than were issued.
    ///
    /// # Errors
    /// The first [`Inconsistency::Phantom`] or [`Inconsistency::Final`].
    pub fn check_sums(&self) -> Result<(), Inconsistency> {
        let mut pushes: BTreeMap<(Key, usize), (u32, u32)> = BTreeMap::new();
        for Record { key, worker, operation, done, .. } in &self.records {
            if *operation == Operation::Push {
                let (issued, acknowledged) = pushes.entry((*key, *worker as usize)).or_default();
                *issued += 1;
                *acknowledged += u32::from(*done);
            }
        }
        let pushed = |key, lane| pushes.get(&(key, lane)).copied().unwrap_or_default();
        for (at, record) in self.records.iter().enumerate() {
            let Operation::Pull(Some(lanes)) = record.operation else { continue };
            for (lane, seen) in self.lanes_at(lanes).iter().enumerate().filter(|(_, seen)| **seen > 0) {
                let (pushed, _) = pushed(record.key, lane);
                if *seen > pushed {
                    let (pull, seen) = (self.describe(at as u32), *seen);
                    return Err(Inconsistency::Phantom { pull, lane, seen, pushed });
                }
            }
        }
        for (key, lanes) in &self.finals {
            for (lane, found) in self.lanes_at(*lanes).iter().enumerate() {
                let (issued, acknowledged) = pushed(*key, lane);
                if !(acknowledged..=issued).contains(found) {
                    let (key, found) = (*key, *found);
                    return Err(Inconsistency::Final { key, lane, found, issued, acknowledged });
                }
            }
        }
        Ok(())
    }

    /// Checks the history, each key separately.
    ///
    /// Pulls with unknown values are ignored. Pushes that were not acknowledged may or may not have been
    /// applied.
    ///
    /// # Errors
    /// The first inconsistency.
    pub fn check(&self) -> Result<Summary, Inconsistency> {
        self.check_keys(|_| true, true)
    }

    /// Checks each worker's view of each key of `of` separately: it sees its own pushes, and never less than
    /// before (read your writes, monotonic reads). The order of other workers' pushes is not checked.
    ///
    /// # Errors
    /// The first inconsistency.
    pub fn check_sessions(&self, of: impl Fn(Key) -> bool) -> Result<Summary, Inconsistency> {
        self.check_keys(of, false)
    }

    /// Like [`History::check`] for the keys of `of`.
    ///
    /// # Errors
    /// The first inconsistency.
    pub fn check_order(&self, of: impl Fn(Key) -> bool) -> Result<Summary, Inconsistency> {
        self.check_keys(of, true)
    }

    fn check_keys(&self, of: impl Fn(Key) -> bool, in_order: bool) -> Result<Summary, Inconsistency> {
        let mut order: Vec<u32> = (0..self.records.len() as u32).collect();
        order.retain(|at| {
            let record = &self.records[*at as usize];
            record.operation != Operation::Pull(None) && of(record.key)
        });
        // The record number keeps each worker's operations in program order.
        order.sort_unstable_by_key(|at| {
            let record = &self.records[*at as usize];
            (record.key, record.worker, *at)
        });
        let mut finals = self.finals.clone();
        finals.retain(|(key, _)| of(*key));
        finals.sort_unstable();
        let mut summary = Summary::default();
        let mut check = KeyCheck::new(self);
        for operations in
            order.chunk_by(|a, b| self.records[*a as usize].key == self.records[*b as usize].key)
        {
            let key = self.records[operations[0] as usize].key;
            let first = finals.partition_point(|(k, _)| *k < key);
            let last = finals.get(first).filter(|(k, _)| *k == key).map(|(_, at)| self.lanes_at(*at));
            check.load(operations)?;
            check.compare_final(key, last)?;
            if in_order {
                check.execute(key)?;
            }
            summary.keys += 1;
            summary.pushes += check.pushes.iter().map(|n| *n as usize).sum::<usize>();
        }
        summary.pulls = order.len() - summary.pushes;
        // Final values of keys without operations must have no pushes.
        for (key, at) in &finals {
            if order.binary_search_by_key(key, |at| self.records[*at as usize].key).is_err() {
                check.load(&[])?;
                check.compare_final(*key, Some(self.lanes_at(*at)))?;
            }
        }
        Ok(summary)
    }

    fn describe(&self, at: u32) -> String {
        let Record { key, worker, operation, start, end, .. } = self.records[at as usize];
        let nth = self.records[..=at as usize].iter().filter(|r| r.key == key && r.worker == worker).count();
        let mut text = match operation {
            Operation::Push => format!("worker {worker}, operation {nth} on {key:?} (push)"),
            Operation::Pull(Some(lanes)) => {
                format!("worker {worker}, operation {nth} on {key:?} (pull of {:?})", self.lanes_at(lanes))
            }
            Operation::Pull(None) => format!("worker {worker}, operation {nth} on {key:?} (pull)"),
        };
        if end != LATEST {
            let _ = write!(text, ", time {start} to {end}");
        }
        text
    }
}

/// Checks one key after another, reusing its buffers.
struct KeyCheck<'a> {
    history: &'a History,
    /// Operations on the key by worker, each worker's in program order.
    operations: Vec<u32>,
    /// Per worker, where its operations end in `operations`.
    ends: Vec<usize>,
    /// Per worker, the next operation to execute.
    heads: Vec<usize>,
    /// Per worker, the number of its pushes on the key.
    pushes: Vec<u32>,
    acknowledged: Vec<u32>,
    /// Per worker, the number of its pushes that have been executed.
    applied: Vec<u32>,
    /// Per worker, where its counts start in `readers`.
    readers_at: Vec<usize>,
    /// Per worker and number of its pushes, the number of pulls that see exactly so many and have not been
    /// executed.
    readers: Vec<u32>,
    /// Per operation, the earliest end among it and its worker's later operations; empty if no operation has
    /// times.
    earliest_end: Vec<u64>,
}

impl<'a> KeyCheck<'a> {
    fn new(history: &'a History) -> Self {
        Self {
            history,
            operations: Vec::new(),
            ends: Vec::new(),
            heads: Vec::new(),
            pushes: Vec::new(),
            acknowledged: Vec::new(),
            applied: Vec::new(),
            readers_at: Vec::new(),
            readers: Vec::new(),
            earliest_end: Vec::new(),
        }
    }

    fn record(&self, at: u32) -> &'a Record {
        &self.history.records[at as usize]
    }

    /// Loads the operations on the next key, and checks each worker's view.
    fn load(&mut self, operations: &[u32]) -> Result<(), Inconsistency> {
        let (history, workers) = (self.history, self.history.workers());
        self.operations.clear();
        self.operations.extend_from_slice(operations);
        for counts in [&mut self.pushes, &mut self.acknowledged, &mut self.applied] {
            counts.clear();
            counts.resize(workers, 0);
        }
        let (ends, heads) = (&mut self.ends, &mut self.heads);
        ends.clear();
        ends.resize(workers, 0);
        for at in operations {
            let Record { worker, operation, done, .. } = history.records[*at as usize];
            ends[worker as usize] += 1;
            if operation == Operation::Push {
                self.pushes[worker as usize] += 1;
                self.acknowledged[worker as usize] += u32::from(done);
            }
        }
        heads.clear();
        let mut start = 0;
        for end in ends.iter_mut() {
            heads.push(start);
            start += *end;
            *end = start;
        }
        self.readers_at.clear();
        let mut counts = 0;
        for pushes in &self.pushes {
            self.readers_at.push(counts);
            counts += *pushes as usize + 1;
        }
        self.readers.clear();
        self.readers.resize(counts, 0);
        self.load_pulls()?;
        self.load_times();
        Ok(())
    }

    /// Counts the pulls, and checks each against its worker's earlier operations.
    fn load_pulls(&mut self) -> Result<(), Inconsistency> {
        let history = self.history;
        let mut issued = 0;
        let mut worker = None;
        let mut before: Option<u32> = None;
        for at in &self.operations {
            let record = &history.records[*at as usize];
            if worker != Some(record.worker) {
                (worker, issued, before) = (Some(record.worker), 0, None);
            }
            let Operation::Pull(Some(lanes_at)) = record.operation else {
                issued += 1;
                continue;
            };
            let lanes = history.lanes_at(lanes_at);
            for (lane, seen) in lanes.iter().enumerate() {
                if *seen > self.pushes[lane] {
                    let (pull, seen, pushed) = (history.describe(*at), *seen, self.pushes[lane]);
                    return Err(Inconsistency::Phantom { pull, lane, seen, pushed });
                }
                self.readers[self.readers_at[lane] + *seen as usize] += 1;
            }
            let own = lanes[record.worker as usize];
            if own != issued {
                return Err(Inconsistency::OwnPushes {
                    pull: history.describe(*at),
                    seen: own,
                    pushed: issued,
                });
            }
            if let Some(before) = before {
                let earlier = history.lanes_at(before);
                if let Some(lane) = (0..lanes.len()).find(|lane| lanes[*lane] < earlier[*lane]) {
                    let (seen, before) = (lanes[lane], earlier[lane]);
                    return Err(Inconsistency::Backwards { pull: history.describe(*at), lane, seen, before });
                }
            }
            before = Some(lanes_at);
        }
        Ok(())
    }

    fn load_times(&mut self) {
        self.earliest_end.clear();
        if self.operations.iter().all(|at| self.history.records[*at as usize].end == LATEST) {
            return;
        }
        self.earliest_end.resize(self.operations.len(), LATEST);
        let mut start = 0;
        for end in &self.ends {
            let mut earliest = LATEST;
            for at in (start..*end).rev() {
                earliest = earliest.min(self.history.records[self.operations[at] as usize].end);
                self.earliest_end[at] = earliest;
            }
            start = *end;
        }
    }

    fn compare_final(&self, key: Key, lanes: Option<&[u32]>) -> Result<(), Inconsistency> {
        let Some(lanes) = lanes else { return Ok(()) };
        for (lane, found) in lanes.iter().enumerate() {
            let (issued, acknowledged) = (self.pushes[lane], self.acknowledged[lane]);
            if !(acknowledged..=issued).contains(found) {
                return Err(Inconsistency::Final { key, lane, found: *found, issued, acknowledged });
            }
        }
        Ok(())
    }

    /// Executes all operations; an error if some wait for each other.
    fn execute(&mut self, key: Key) -> Result<(), Inconsistency> {
        let mut left = self.operations.len();
        while left > 0 {
            let before = left;
            for worker in 0..self.ends.len() {
                while self.heads[worker] < self.ends[worker] && self.waits_for(worker).is_none() {
                    self.execute_one(worker);
                    left -= 1;
                }
            }
            if left == before {
                return Err(Inconsistency::Cycle { key, cycle: self.cycle() });
            }
        }
        Ok(())
    }

    fn execute_one(&mut self, worker: usize) {
        let record = self.record(self.operations[self.heads[worker]]);
        match record.operation {
            Operation::Push => self.applied[worker] += 1,
            Operation::Pull(lanes) => {
                let lanes = self.history.lanes_at(lanes.expect("unknown pulls were left out"));
                for (lane, seen) in lanes.iter().enumerate() {
                    self.readers[self.readers_at[lane] + *seen as usize] -= 1;
                }
            }
        }
        self.heads[worker] += 1;
    }

    /// Why the next operation of `worker` cannot be executed yet, if it cannot.
    fn waits_for(&self, worker: usize) -> Option<Reason> {
        let record = self.record(self.operations[self.heads[worker]]);
        match record.operation {
            Operation::Push => {
                let applied = self.applied[worker];
                if self.readers[self.readers_at[worker] + applied as usize] > 0 {
                    return Some(Reason::Readers { lane: worker, seen: applied });
                }
            }
            Operation::Pull(lanes) => {
                let lanes = self.history.lanes_at(lanes.expect("unknown pulls were left out"));
                for (lane, (seen, applied)) in lanes.iter().zip(&self.applied).enumerate() {
                    if seen > applied {
                        return Some(Reason::Push { lane, number: *seen });
                    }
                }
            }
        }
        if self.earliest_end.is_empty() {
            return None;
        }
        (0..self.ends.len())
            .find(|other| {
                let head = self.heads[*other];
                head < self.ends[*other] && self.earliest_end[head] < record.start
            })
            .map(|other| Reason::Ended { other })
    }

    /// Describes a cycle. Called when every worker with operations left waits for another.
    fn cycle(&self) -> String {
        let Some(mut worker) = (0..self.ends.len()).find(|w| self.heads[*w] < self.ends[*w]) else {
            return String::new();
        };
        let mut visited = vec![false; self.ends.len()];
        let mut path = Vec::new();
        while !std::mem::replace(&mut visited[worker], true) {
            let Some(reason) = self.waits_for(worker) else { break };
            let next = match reason {
                Reason::Push { lane, .. } => lane,
                Reason::Ended { other } => other,
                Reason::Readers { lane, seen } => self.reader(lane, seen).unwrap_or(worker),
            };
            path.push((worker, reason, next));
            worker = next;
        }
        let start = path.iter().position(|(w, ..)| *w == worker).unwrap_or(0);
        let mut text = String::new();
        for (waiting, reason, next) in &path[start..] {
            let operation = self.history.describe(self.operations[self.heads[*waiting]]);
            let why = match reason {
                Reason::Push { lane, number } => {
                    format!("must come after push {number} of worker {lane}, which it sees")
                }
                Reason::Readers { seen, .. } => {
                    format!("must come after a pull of worker {next} that sees {seen} pushes before it")
                }
                Reason::Ended { other } => {
                    format!("must come after an operation of worker {other} that had ended")
                }
            };
            let _ = writeln!(text, "  {operation} {why}");
        }
        text
    }

    /// A worker with an unexecuted pull that sees exactly `seen` pushes of `lane`.
    fn reader(&self, lane: usize, seen: u32) -> Option<usize> {
        (0..self.ends.len()).find(|worker| {
            self.operations[self.heads[*worker]..self.ends[*worker]].iter().any(|at| {
                match self.record(*at).operation {
                    Operation::Pull(Some(lanes)) => self.history.lanes_at(lanes)[lane] == seen,
                    Operation::Pull(None) | Operation::Push => false,
                }
            })
        })
    }
}

/// Why an operation cannot be executed yet.
#[derive(Clone, Copy)]
enum Reason {
    /// It sees this push.
    Push { lane: usize, number: u32 },
    /// A pull that does not see it comes first.
    Readers { lane: usize, seen: u32 },
    /// An operation of another worker ended before it started.
    Ended { other: usize },
}
