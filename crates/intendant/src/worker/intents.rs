//! Intents: keys that a worker is about to access, signalled by the worker or by the thread that prepares its
//! batches.

use super::Worker;
use crate::error::Error;
use crate::inbox::Command;
use crate::parts::DOWN;
use intendant_control::Failure;
use intendant_core::{Clock, Element, Key};
use intendant_engine::{AccessError, Explanation};
use std::ops::Range;

impl<E: Element> Worker<E> {
    /// Signals that this worker will access `keys` while its clock is in `window` [thesis §5.2]. The call
    /// costs little more than copying the keys, and affects only the speed of the accesses. An early signal
    /// is better than a late one, and a far too early one does no harm. Windows may overlap; those of one key
    /// add up. Techniques that do not act on intents, and clusters of one node, ignore the call. An intent
    /// covers reads and writes: the source lets applications distinguish the two and treats them alike
    /// [thesis §5.3.1].
    ///
    /// # Errors
    /// [`Error::Access`] if a key does not exist; then nothing is signalled.
    #[inline(never)]
    pub fn intent(&self, keys: &[Key], window: Range<Clock>) -> Result<(), Error> {
        let wake = self.inner.shared.clocks().intend(self.id, keys, window)?;
        self.inner.wake(&wake);
        Ok(())
    }

    /// Why `key` is where it is, as this node sees it: its owner, its replicas, intents of workers here, and
    /// the latest decisions. Owners decide, so the owner's node knows most. The answer may be out of date
    /// when the caller reads it.
    ///
    /// # Errors
    /// [`Error::Access`] if the key does not exist, [`Error::Failed`] if the cluster has ended.
    #[inline(never)]
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
