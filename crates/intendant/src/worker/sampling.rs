//! Samples that the system draws: the node's sampling manager prepares handles and draws from them; the
//! worker localizes the keys that the manager names.

use super::Worker;
use crate::error::Error;
use intendant_core::{Element, Key, random};
use intendant_sampling::{DistributionId, Handle};

impl<E: Element> Worker<E> {
    /// Prepares `samples` samples, and begins to move the keys that the system chooses now to this node, if
    /// the technique moves keys [thesis §4.3.3]. Call it some time before [`Worker::pull_sample`].
    ///
    /// # Errors
    /// If the distribution is not registered, and those of [`Worker::localize_async`].
    #[inline(never)]
    pub fn prepare_sample(&mut self, distribution: DistributionId, samples: usize) -> Result<Handle, Error> {
        let stream = random::stream(self.inner.seed, &[self.rank().0.into(), self.id.0.into(), self.handles]);
        self.handles += 1;
        let handle = self.inner.sampling.prepare(distribution, samples, stream, &*self.inner)?;
        self.bring(handle.near().collect())?;
        Ok(handle)
    }

    /// Takes the next `samples` samples of a handle: `keys` and `values` (concatenated) are overwritten with
    /// their keys and values [thesis §4.3.3]. Portions smaller than the handle leave the system more freedom.
    ///
    /// # Errors
    /// If fewer samples are left; then nothing is drawn. Also those of [`Worker::pull`].
    #[inline(never)]
    pub fn pull_sample(
        &mut self,
        handle: &mut Handle,
        samples: usize,
        keys: &mut Vec<Key>,
        values: &mut Vec<E>,
    ) -> Result<(), Error> {
        keys.clear();
        self.draw(handle, samples, keys)?;
        values.resize(self.elements(keys), E::ZERO);
        self.count_sampled(keys.len());
        self.pull(keys, values)
    }

    /// Appends the keys of the next `samples` samples of a handle to `keys`, for a pull that reads other keys
    /// as well: see [`Worker::count_sampled`].
    ///
    /// # Errors
    /// As [`Worker::pull_sample`].
    #[inline(never)]
    pub fn draw(&mut self, handle: &mut Handle, samples: usize, keys: &mut Vec<Key>) -> Result<(), Error> {
        let mut near = Vec::new();
        self.inner.sampling.draw(handle, samples, &*self.inner, keys, &mut near)?;
        self.bring(near)
    }

    fn bring(&mut self, mut near: Vec<Key>) -> Result<(), Error> {
        if near.is_empty() {
            return Ok(());
        }
        near.sort_unstable();
        near.dedup();
        // No call waits for this ticket.
        let _ticket = self.localize_async(&near)?;
        Ok(())
    }

    /// Reports a pull to the sampling manager, if a scheme uses such reports.
    pub(super) fn observe(&mut self, keys: &[Key]) {
        let samples = std::mem::take(&mut self.samples);
        if self.inner.sampling.observes() {
            self.inner.sampling.observe(&keys[..keys.len().saturating_sub(samples)]);
        }
    }
}
