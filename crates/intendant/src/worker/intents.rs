//! Intents: what a worker is about to access, said by itself or by whoever prepares its batches.

use super::{Preparer, Worker};
use crate::control::Failure;
use crate::error::Error;
use crate::inbox::Command;
use crate::node::DOWN;
use intendant_core::{Clock, Element, Key, WorkerId};
use intendant_engine::{AccessError, Explanation};
use std::ops::Range;

impl<E: Element> Worker<E> {
    /// Says that this worker will access `keys` while its clock is in `window` (000, §5.2). Costs little more than to copy the
    /// keys, and changes nothing but how fast they will be accessed: the earlier it is said the better, and to say it much too early
    /// does no harm. Windows may overlap; those of one key add up. Techniques that do not act on intents, and nodes without others, ignore it.
    ///
    /// # Errors
    /// [`Error::Access`] if a key does not exist; then nothing was said.
    pub fn intent(&self, keys: &[Key], window: Range<Clock>) -> Result<(), Error> {
        let wake = self.inner.shared.intend(self.id, keys, window)?;
        self.inner.wake(&wake);
        Ok(())
    }

    /// Why `key` is where it is, as this node sees it: who owns it, who has replicas, whether workers here intend to use it, and what
    /// was decided lately. Owners decide, so ask at the owner's node to learn most. It is out of date at once.
    ///
    /// # Errors
    /// [`Error::Access`] if the key does not exist, [`Error::Failed`] if the cluster has ended.
    pub fn explain(&self, key: Key) -> Result<Explanation, Error> {
        let layout = self.inner.shared.layout();
        if !layout.contains(key) {
            let last = Key(layout.keys() - 1);
            return Err(AccessError::KeyOutOfRange { key, position: 0, last }.into());
        }
        let (reply, answer) = crossbeam_channel::bounded(1);
        self.inner.inboxes[layout.channel(key).index()].send(Command::Explain(key, reply));
        answer.recv().or_else(|_| {
            self.inner.health.check()?;
            Err(Failure::misuse(DOWN).into())
        })
    }
}

impl<E: Element> Preparer<E> {
    /// Says that `worker` of this node will access `keys` while its clock is in `window`, as [`Worker::intent`] does.
    ///
    /// # Errors
    /// [`Error::Access`] if a key does not exist, [`Error::Config`] if the worker does not; then nothing was said.
    pub fn intent(&self, worker: WorkerId, keys: &[Key], window: Range<Clock>) -> Result<(), Error> {
        let inner = self.inner();
        let workers = inner.meetings.participants();
        if worker.index() >= workers {
            return Err(Error::Config(format!(
                "an intent of worker {worker}; this node has {workers} workers"
            )));
        }
        let wake = inner.shared.intend(worker, keys, window)?;
        inner.wake(&wake);
        Ok(())
    }
}
