//! Clocks, staleness bounds and intents reported by workers.

use super::Shared;
use super::local::Local;
use crate::error::AccessError;
use intendant_core::{ChannelId, Clock, Element, Key, NodeId, WorkerId};
use intendant_intent::{Board, FINISHED};
use intendant_techniques::clocks::{NodeClock, RESTING};
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Notifications for channels that follow from a worker's clock.
#[derive(Debug, Default)]
#[must_use = "channels must be notified"]
pub struct Advanced {
    /// If present, the caller must give every channel [`crate::Input::Clock`] with this clock, after the
    /// worker's earlier submissions.
    pub clock: Option<NodeClock>,
    /// The caller must give these channels [`crate::Input::Wake`].
    pub wake: Vec<ChannelId>,
}

impl<E: Element> Shared<E> {
    /// Sets the staleness bound, in clocks: a read of a worker at clock c sees every update of every worker
    /// up to its clock c − bound − 1. All nodes must set the same bound at the same clocks. Does nothing if
    /// the technique has no such bound.
    pub fn set_staleness_bound(&self, bound: u32) {
        if let Some(bounds) = &self.bounds {
            // Relaxed: a reader that sees the old bound for a moment could have read before the change.
            bounds.staleness.store(bound, Ordering::Relaxed);
        }
    }

    /// The staleness bound, in clocks; `None` if the technique has none.
    pub fn staleness_bound(&self) -> Option<u32> {
        // Relaxed: see above.
        self.bounds.as_ref().map(|bounds| bounds.staleness.load(Ordering::Relaxed))
    }

    /// The worker advances its clock to `clock`.
    #[inline(never)]
    pub fn advance_clock(&self, local: &mut Local<E>, clock: Clock) -> Advanced {
        local.set_clock(clock.0.min(RESTING - 1));
        let worker = local.worker().index();
        Advanced {
            clock: self.tell_clock(worker, local.clock()),
            wake: self.board.as_ref().map_or_else(Vec::new, |board| board.advance(worker, local.clock())),
        }
    }

    /// The worker enters a meeting of all workers, or is finished: other workers do not wait for it until its
    /// next [`Shared::advance_clock`], which all workers of all nodes call with the latest clock of any of
    /// them. As after that call, the caller must notify the channels.
    #[must_use]
    pub fn rest(&self, local: &Local<E>) -> Option<NodeClock> {
        self.tell_clock(local.worker().index(), RESTING)
    }

    /// The worker is finished: as [`Shared::rest`], and all its intents end.
    #[inline(never)]
    pub fn retire(&self, local: &Local<E>) -> Advanced {
        let worker = local.worker().index();
        Advanced {
            clock: self.rest(local),
            wake: self.board.as_ref().map_or_else(Vec::new, |board| board.advance(worker, FINISHED)),
        }
    }

    /// Ends the rest state for all workers: all of them have met since the rest began, and no node reads a
    /// snapshot any more. Channels act on the intents that were signalled meanwhile. Advancing a worker's
    /// clock does the same. Returns the channels that must be given [`crate::Input::Wake`].
    #[must_use]
    #[inline(never)]
    pub fn resume(&self) -> Vec<ChannelId> {
        self.board.as_ref().map_or_else(Vec::new, Board::resume)
    }

    fn tell_clock(&self, worker: usize, clock: u32) -> Option<NodeClock> {
        let bounds = self.bounds.as_ref()?;
        bounds.workers.lock().unwrap_or_else(PoisonError::into_inner).set(worker, clock)
    }

    /// Signals that `worker` will access `keys` while its clock is in `window` [thesis §5.2]. Any thread may
    /// call this, for instance one that prepares batches ahead of the worker. Windows may overlap, and lie in
    /// the past. Does nothing if the technique ignores intents, or the node is the only one. Returns the
    /// channels that must be given [`crate::Input::Wake`].
    ///
    /// # Errors
    /// If a key does not exist; then nothing was done.
    ///
    /// # Panics
    /// If there is no such worker.
    #[inline(never)]
    pub fn intend(
        &self,
        worker: WorkerId,
        keys: &[Key],
        window: Range<Clock>,
    ) -> Result<Vec<ChannelId>, AccessError> {
        let (start, end) = (window.start.0, window.end.0);
        if let Some(position) = keys.iter().position(|key| !self.layout.contains(*key)) {
            let last = Key(self.layout.keys() - 1);
            return Err(AccessError::KeyOutOfRange { key: keys[position], position, last });
        }
        let Some(board) = self.board.as_ref().filter(|_| start < end) else { return Ok(Vec::new()) };
        let (mut wake, worker, channels) = (Vec::new(), worker.index(), self.layout.channels());
        for channel in 0..channels {
            let own = |key: &Key| self.layout.channel(*key).index() == channel;
            let all = keys.iter().copied();
            let must_wake = if channels == 1 {
                board.signal(worker, channel, all, start..end)
            } else {
                // Skips channels without keys, whose locks need not be taken.
                let mut own = all.filter(own).peekable();
                own.peek().is_some() && board.signal(worker, channel, own, start..end)
            };
            if must_wake {
                wake.push(ChannelId(channel as u16));
            }
        }
        Ok(wake)
    }

    /// The board on which workers post intents, if the technique acts on them.
    pub(crate) fn board(&self) -> Option<&Board> {
        self.board.as_ref()
    }

    /// The clock that copies must have reached for a reader at `clock`.
    pub(crate) fn need(&self, clock: u32) -> u32 {
        self.staleness_bound().map_or(0, |staleness| clock.saturating_sub(staleness))
    }

    /// The channel's global clock has advanced.
    pub(crate) fn set_global(&self, channel: ChannelId, clock: u32) {
        if let Some(bounds) = &self.bounds {
            // Release: pairs with the Acquire in `is_fresh`. A reader of this clock also reads the updates
            // before it.
            bounds.global[channel.index()].store(clock, Ordering::Release);
        }
    }

    /// The channel's replicas contain the updates of `owner` from before `clock`.
    pub(crate) fn set_fresh(&self, channel: ChannelId, owner: NodeId, clock: u32) {
        if let Some(bounds) = &self.bounds {
            let at = channel.index() * self.layout.nodes() + owner.index();
            // Release: as above. Only the channel's own thread writes.
            bounds.fresh[at].store(clock, Ordering::Release);
        }
    }
}
