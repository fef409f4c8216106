//! Technique `single`: the values are one latched array that the workers of a process share. No server, no
//! messages.
//!
//! This is the baseline for a parameter server on one node, so that it does no more than necessary: a pull
//! copies rows, a push adds to them, and a task that trains in place is lent them, each atomic by row. A
//! single worker needs no latches.

use super::parameters::{NodeHandle, Parameters, Part, Train};
use crate::error::TrainError;
use crate::report::metrics::Observe;
use intendant::{AccessStats, Failure, ManagementStats, NetworkStats};
use intendant_core::{Element, Initialiser, Key, Layout, lock};
use intendant_sampling::{Everything, Handle, Manager, SampleError, Sampler, SamplingStats};
use intendant_store::Flat;
use intendant_task::{Announcement, Row, Rows, SampleRequest};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Keys of one part of a snapshot.
const SNAPSHOT_KEYS: u64 = 1024;

/// What the workers of the process share in addition to the values.
pub(crate) struct SingleNode {
    meeting: Arc<Meeting>,
    sampling: Arc<Manager>,
    /// How many there are.
    values: usize,
}

/// One worker's view of the shared array.
pub(crate) struct SingleWorker<E> {
    values: Arc<Flat<E>>,
    sampling: Arc<Manager>,
    /// Keys of the next pull that are samples.
    samples: usize,
    meeting: Arc<Meeting>,
    worker: usize,
    accesses: AccessStats,
}

/// Allocates the values and one view for each of `workers`.
#[inline(never)]
pub(crate) fn start<E: Element>(
    layout: Layout,
    init: &Initialiser<E>,
    sampler: &Sampler,
    seed: u64,
    workers: usize,
) -> (SingleNode, Vec<SingleWorker<E>>) {
    let keys = layout.keys() as usize;
    let values = Arc::new(Flat::new(Arc::new(layout), init));
    let meeting = Arc::new(Meeting::new(workers));
    let sampling = Arc::new(Manager::new(sampler.clone(), seed, 0));
    let view = |worker| SingleWorker {
        values: Arc::clone(&values),
        sampling: Arc::clone(&sampling),
        samples: 0,
        meeting: Arc::clone(&meeting),
        worker,
        accesses: AccessStats::default(),
    };
    let workers = (0..workers).map(view).collect();
    (SingleNode { meeting, sampling, values: keys }, workers)
}

impl NodeHandle for SingleNode {
    fn abort(&self, reason: &str) {
        self.meeting.abort(reason);
    }

    fn drop_out(&self, reason: &str) {
        // There are no others.
        self.abort(reason);
    }

    fn traffic(&self) -> NetworkStats {
        NetworkStats::default()
    }

    fn management(&self) -> ManagementStats {
        ManagementStats::default()
    }

    fn sampling(&self) -> SamplingStats {
        self.sampling.stats()
    }

    fn observer(&self) -> Arc<dyn Observe> {
        Arc::new(SingleObserver { sampling: Arc::clone(&self.sampling), values: self.values })
    }

    fn prepare_sample(&self, request: &SampleRequest) -> Result<Handle, SampleError> {
        self.sampling.prepare(request.distribution, request.samples, request.stream, &Everything)
    }

    fn intend(&self, _: usize, _: &Announcement) -> Result<(), TrainError> {
        Ok(())
    }
}

/// What other threads read of the process.
struct SingleObserver {
    sampling: Arc<Manager>,
    values: usize,
}

impl Observe for SingleObserver {
    fn traffic(&self) -> NetworkStats {
        NetworkStats::default()
    }

    fn management(&self) -> Option<ManagementStats> {
        Some(ManagementStats::default())
    }

    fn sampling(&self) -> SamplingStats {
        self.sampling.stats()
    }

    fn held(&self) -> usize {
        self.values
    }

    fn inbox_commands(&self) -> usize {
        0
    }

    fn failure(&self) -> Option<Failure> {
        None
    }
}

/// Rows of the shared array, for a task.
struct SingleRows<'a, E> {
    values: &'a Flat<E>,
    keys: &'a [Key],
}

impl<E: Element> Rows<E> for SingleRows<'_, E> {
    fn row(&mut self, at: usize) -> Row<'_, E> {
        self.values.lend(self.keys[at])
    }

    fn prefetch(&self, at: usize) {
        if let Some(key) = self.keys.get(at) {
            self.values.prefetch(*key);
        }
    }
}

/// The same for the only worker.
struct OwnRows<'a, E> {
    values: &'a mut Flat<E>,
    keys: &'a [Key],
}

impl<E: Element> Rows<E> for OwnRows<'_, E> {
    fn row(&mut self, at: usize) -> Row<'_, E> {
        self.values.lend_alone(self.keys[at])
    }

    fn prefetch(&self, at: usize) {
        if let Some(key) = self.keys.get(at) {
            self.values.prefetch(*key);
        }
    }
}

impl<E: Element> SingleWorker<E> {
    fn check(&self, keys: &[Key]) -> Result<(), TrainError> {
        let layout = self.values.layout();
        match keys.iter().find(|key| !layout.contains(**key)) {
            Some(key) => Err(TrainError::NoSuchKey { key: *key, keys: layout.keys() }),
            None => Ok(()),
        }
    }

    /// Tells the sampling manager of direct accesses, if a scheme uses that.
    fn observe(&mut self, keys: &[Key]) {
        let samples = std::mem::take(&mut self.samples);
        if self.sampling.observes() {
            self.sampling.observe(&keys[..keys.len().saturating_sub(samples)]);
        }
    }

    fn count(&mut self, keys: &[Key], values: usize) -> Result<(), TrainError> {
        self.check(keys)?;
        let layout = self.values.layout();
        assert_eq!(
            values,
            keys.iter().map(|k| layout.len(*k)).sum::<usize>(),
            "values as long as their keys say"
        );
        self.accesses.local += keys.len() as u64;
        Ok(())
    }
}

impl<E: Element> Parameters<E> for SingleWorker<E> {
    fn pull(&mut self, keys: &[Key], values: &mut [E]) -> Result<(), TrainError> {
        self.meeting.check()?;
        self.count(keys, values.len())?;
        self.accesses.pull_keys += keys.len() as u64;
        self.observe(keys);
        let mut rest = values;
        for key in keys {
            let (value, after) = rest.split_at_mut(self.values.layout().len(*key));
            self.values.read(*key, value);
            rest = after;
        }
        Ok(())
    }

    fn push(&mut self, keys: &[Key], values: &[E]) -> Result<(), TrainError> {
        self.count(keys, values.len())?;
        self.accesses.push_keys += keys.len() as u64;
        let mut rest = values;
        for key in keys {
            let (value, after) = rest.split_at(self.values.layout().len(*key));
            self.values.add(*key, value);
            rest = after;
        }
        Ok(())
    }

    fn train(&mut self, keys: &[Key], act: &mut Train<'_, E>) -> Result<(), TrainError> {
        self.meeting.check()?;
        self.check(keys)?;
        self.observe(keys);
        self.accesses.pull_keys += keys.len() as u64;
        self.accesses.push_keys += keys.len() as u64;
        self.accesses.local += 2 * keys.len() as u64;
        match Arc::get_mut(&mut self.values) {
            Some(values) => act(&mut OwnRows { values, keys }),
            None => act(&mut SingleRows { values: &self.values, keys }),
        };
        Ok(())
    }

    fn localize(&mut self, _keys: &[Key], _wait: bool) -> Result<(), TrainError> {
        // Everything is here.
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TrainError> {
        Ok(())
    }

    fn gather(&mut self, _name: &str, payload: Vec<u8>) -> Result<Vec<Vec<u8>>, TrainError> {
        self.meeting.gather(self.worker, payload).map(|all| all.to_vec())
    }

    fn quiesce(&mut self) -> Result<(), TrainError> {
        self.meeting.gather(self.worker, Vec::new()).map(drop)
    }

    fn snapshot(&mut self, range: Range<u64>, part: &mut Part<'_, E>) -> Result<(), TrainError> {
        let mut start = range.start;
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        while start < range.end {
            self.meeting.check()?;
            let end = (start + SNAPSHOT_KEYS).min(range.end);
            keys.clear();
            keys.extend((start..end).map(Key));
            let layout = self.values.layout();
            if let Some(key) = keys.iter().find(|key| !layout.contains(**key)) {
                return Err(TrainError::NoSuchKey { key: *key, keys: layout.keys() });
            }
            values.resize(keys.iter().map(|k| layout.len(*k)).sum(), E::ZERO);
            let mut rest = values.as_mut_slice();
            for key in &keys {
                let (value, after) = rest.split_at_mut(layout.len(*key));
                self.values.read(*key, value);
                rest = after;
            }
            part(&keys, &values);
            start = end;
        }
        Ok(())
    }

    fn snapshot_of_node(&mut self, part: &mut Part<'_, E>) -> Result<(), TrainError> {
        let keys = self.values.layout().keys();
        self.snapshot(0..keys, part)
    }

    fn advance_clock(&mut self) {}

    fn synchronize(&mut self) -> Result<(), TrainError> {
        // There is one copy.
        Ok(())
    }

    fn draw(&mut self, handle: &mut Handle, samples: usize, keys: &mut Vec<Key>) -> Result<(), TrainError> {
        let drawn = self.sampling.draw(handle, samples, &Everything, keys, &mut Vec::new());
        drawn.map_err(|source| TrainError::Sample { worker: self.worker, source })
    }

    fn count_sampled(&mut self, keys: usize) {
        self.accesses.sampled += keys as u64;
        self.samples += keys;
    }

    fn explain(&self, _: Key) -> Result<Option<intendant::Explanation>, TrainError> {
        Ok(None)
    }

    fn accesses(&self) -> AccessStats {
        self.accesses
    }

    fn outstanding(&self) -> (usize, usize) {
        (0, 0)
    }
}

/// A repeated barrier of all workers of a process; an abort ends it for all of them.
struct Meeting {
    state: Mutex<MeetingState>,
    changed: Condvar,
    /// Whether the run was aborted; read without the lock.
    stopped: AtomicBool,
}

struct MeetingState {
    /// Meetings that have ended.
    ended: u64,
    arrived: usize,
    brought: Vec<Vec<u8>>,
    /// Payloads of the last meeting that ended. No worker misses them: the next meeting cannot end before all
    /// workers have left this one.
    result: Arc<[Vec<u8>]>,
    aborted: Option<String>,
}

impl Meeting {
    fn new(workers: usize) -> Self {
        let state = MeetingState {
            ended: 0,
            arrived: 0,
            brought: vec![Vec::new(); workers],
            result: Arc::from([]),
            aborted: None,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), stopped: AtomicBool::new(false) }
    }

    fn abort(&self, reason: &str) {
        lock(&self.state).aborted.get_or_insert_with(|| reason.to_owned());
        self.stopped.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn check(&self) -> Result<(), TrainError> {
        // Relaxed: only the reason depends on it, and that is read under the lock.
        if !self.stopped.load(Ordering::Relaxed) {
            return Ok(());
        }
        match &lock(&self.state).aborted {
            Some(reason) => Err(TrainError::Stopped(reason.clone())),
            None => Ok(()),
        }
    }

    fn gather(&self, worker: usize, payload: Vec<u8>) -> Result<Arc<[Vec<u8>]>, TrainError> {
        let mut state = lock(&self.state);
        state.brought[worker] = payload;
        state.arrived += 1;
        let meeting = state.ended;
        if state.arrived == state.brought.len() && state.aborted.is_none() {
            state.result = state.brought.iter_mut().map(std::mem::take).collect();
            state.arrived = 0;
            state.ended += 1;
            self.changed.notify_all();
        }
        while state.ended == meeting && state.aborted.is_none() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match &state.aborted {
            // A meeting that ended before the abort counts; the next one will not.
            Some(reason) if state.ended == meeting => Err(TrainError::Stopped(reason.clone())),
            _ => Ok(Arc::clone(&state.result)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meet(meeting: &Meeting, worker: usize, rounds: u8) -> Result<(), TrainError> {
        for round in 0..rounds {
            let all = meeting.gather(worker, vec![worker as u8, round])?;
            assert_eq!(*all, [[0, round].to_vec(), [1, round].to_vec(), [2, round].to_vec()]);
        }
        Ok(())
    }

    #[test]
    fn every_meeting_returns_all_payloads_in_order() {
        let meeting = Meeting::new(3);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|w| {
                    scope.spawn({
                        let meeting = &meeting;
                        move || meet(meeting, w, 200)
                    })
                })
                .collect();
            for thread in threads {
                thread.join().expect("no panic").expect("no abort");
            }
        });
    }

    #[test]
    fn an_abort_ends_a_meeting_that_one_worker_never_reaches() {
        let meeting = Meeting::new(3);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| meet(&meeting, 0, 1));
            let second = scope.spawn(|| meet(&meeting, 1, 1));
            meeting.abort("worker 2 is gone");
            for thread in [first, second] {
                let error = thread.join().expect("no panic").expect_err("aborted");
                assert!(error.to_string().contains("worker 2 is gone"), "{error}");
            }
        });
        assert!(meeting.check().is_err());
    }
}
