//! The training loop's interface to the parameters.
//!
//! [`intendant::Worker`], a worker of a cluster, and [`crate::run::single`], plain shared memory, implement
//! it. The loop is the same for both, so that comparing them compares parameter management and nothing else.

use crate::error::TrainError;
use crate::report::metrics::Observe;
use intendant::{AccessStats, Explanation, ManagementStats, Mark, NetworkStats, Work};
use intendant_core::{Element, Key};
use intendant_sampling::{Handle, SampleError, SamplingStats};
use intendant_task::{Announcement, Rows, SampleRequest};
use std::ops::Range;
use std::sync::Arc;

/// A part of a snapshot: keys and their values, concatenated.
pub(crate) type Part<'a, E> = dyn FnMut(&[Key], &[E]) + 'a;

/// Trains on rows. Returns whether what was done to them is to be kept.
pub(crate) type Train<'a, E> = dyn FnMut(&mut dyn Rows<E>) -> bool + 'a;

/// The parameters, as one worker sees them.
pub(crate) trait Parameters<E: Element>: Send {
    /// Reads the values of `keys`, concatenated.
    fn pull(&mut self, keys: &[Key], values: &mut [E]) -> Result<(), TrainError>;

    /// Adds `values` to the values of `keys`; need not wait.
    fn push(&mut self, keys: &[Key], values: &[E]) -> Result<(), TrainError>;

    /// Calls `act` with the rows of `keys`, to be changed in place; need not wait for what became of them to
    /// arrive.
    fn train(&mut self, keys: &[Key], act: &mut Train<'_, E>) -> Result<(), TrainError>;

    /// Moves `keys` to this node, if the technique moves keys on request; with `wait`, returns when they have
    /// arrived.
    fn localize(&mut self, keys: &[Key], wait: bool) -> Result<(), TrainError>;

    /// Waits until all pushes of this worker have been applied.
    fn flush(&mut self) -> Result<(), TrainError>;

    /// Waits for all workers; returns the payloads of all of them, in the order of (rank, worker).
    fn gather(&mut self, name: &str, payload: Vec<u8>) -> Result<Vec<Vec<u8>>, TrainError>;

    /// Waits for all workers; returns when no message is in flight.
    fn quiesce(&mut self) -> Result<(), TrainError>;

    /// Streams all values of a range of keys. Follows `quiesce`.
    fn snapshot(&mut self, range: Range<u64>, part: &mut Part<'_, E>) -> Result<(), TrainError>;

    /// Streams the values that this node owns. Follows `quiesce`.
    fn snapshot_of_node(&mut self, part: &mut Part<'_, E>) -> Result<(), TrainError>;

    /// Advances this worker's clock by one.
    fn advance_clock(&mut self);

    /// Synchronises static replicas, together with all workers; each of them calls it equally often.
    fn synchronize(&mut self) -> Result<(), TrainError>;

    /// Takes keys from a handle.
    fn draw(&mut self, handle: &mut Handle, samples: usize, keys: &mut Vec<Key>) -> Result<(), TrainError>;

    /// Declares the last `keys` keys of the next pull, or of the next rows, to be samples.
    fn count_sampled(&mut self, keys: usize);

    /// Accesses so far.
    fn accesses(&self) -> AccessStats;

    /// Operations that wait for answers, and their bytes in flight.
    fn outstanding(&self) -> (usize, usize);

    /// The location of a key and its reasons, as this node sees them; `None` without nodes.
    fn explain(&self, key: Key) -> Result<Option<Explanation>, TrainError>;
}

/// The node that workers belong to.
pub(crate) trait NodeHandle: Sync {
    /// Ends the run everywhere; every blocked call returns an error.
    fn abort(&self, reason: &str);

    /// Ends this node, so that the others lose it; every blocked call returns an error.
    fn drop_out(&self, reason: &str);

    /// Records a moment of the run in the node's trace, if it has one.
    fn mark(&self, _mark: Mark, _number: u64) {}

    /// The calling thread gives way to the node's own threads if they share cores.
    fn give_way(&self, _work: Work) {}

    /// Messages that this node has sent so far.
    fn traffic(&self) -> NetworkStats;

    /// Statistics of this node's parameter management so far.
    fn management(&self) -> ManagementStats;

    /// Statistics of this node's sampling so far.
    fn sampling(&self) -> SamplingStats;

    /// What other threads read of this node; also after its end.
    fn observer(&self) -> Arc<dyn Observe>;

    /// Prepares samples, on any thread.
    fn prepare_sample(&self, request: &SampleRequest) -> Result<Handle, SampleError>;

    /// Signals what a worker of this node will access, on any thread.
    fn intend(&self, worker: usize, announcement: &Announcement) -> Result<(), TrainError>;
}
