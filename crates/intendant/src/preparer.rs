//! A handle for threads that prepare batches ahead of a worker.

use crate::error::Error;
use crate::parts::NodeParts;
use intendant_core::{Clock, Element, Key, WorkerId};
use intendant_sampling::{DistributionId, Handle, SampleError};
use std::ops::Range;
use std::sync::Arc;

/// Prepares samples and signals intents on any thread, such as one that prepares batches ahead of a worker.
#[derive(Clone)]
pub struct Preparer<E>(Arc<NodeParts<E>>);

impl<E: Element> Preparer<E> {
    pub(crate) fn new(inner: Arc<NodeParts<E>>) -> Self {
        Self(inner)
    }

    /// Prepares `samples` samples. `stream` names their randomness: with independent sampling, equal streams
    /// give equal samples. The call moves no key; [`Handle::near`] lists the keys that should be moved to
    /// this node.
    ///
    /// # Errors
    /// If the distribution is not registered.
    #[inline(never)]
    pub fn prepare_sample(
        &self,
        distribution: DistributionId,
        samples: usize,
        stream: u64,
    ) -> Result<Handle, SampleError> {
        self.0.sampling.prepare(distribution, samples, stream, &*self.0)
    }

    /// Signals that `worker` of this node will access `keys` while its clock is in `window`, as
    /// [`crate::Worker::intent`] does.
    ///
    /// # Errors
    /// [`Error::Access`] if a key does not exist, [`Error::Config`] if the worker does not exist. Nothing is
    /// signalled then.
    #[inline(never)]
    pub fn intent(&self, worker: WorkerId, keys: &[Key], window: Range<Clock>) -> Result<(), Error> {
        let inner = &self.0;
        let workers = inner.meetings.participants();
        if worker.index() >= workers {
            return Err(Error::Config(format!(
                "an intent of worker {worker}; this node has {workers} workers"
            )));
        }
        let wake = inner.shared.clocks().intend(worker, keys, window)?;
        inner.wake(&wake);
        Ok(())
    }
}
