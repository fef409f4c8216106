//! Clocks, staleness bounds and intents reported by workers.

use super::local::Local;
use crate::error::AccessError;
use intendant_core::{ChannelId, Clock, Element, Key, Layout, NodeId, WorkerId};
use intendant_intent::{Board, FINISHED};
use intendant_techniques::clocks::{NodeClock, RESTING, WorkerClocks};
use intendant_techniques::{Policy, Role, SlotState};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

/// What the workers and channels of a node tell each other of time: the workers' clocks, how fresh the
/// copies are, and which keys workers intend to use at which clocks.
pub struct Clocks {
    layout: Arc<Layout>,
    /// The state of bounded staleness; `None` if the technique does not bound it.
    bounds: Option<Bounds>,
    /// The board of intents; `None` if the technique ignores intents, or there are no other nodes.
    board: Option<Board>,
}

/// State that workers and channels share under bounded staleness.
struct Bounds {
    /// The bound, in clocks.
    staleness: AtomicU32,
    /// Per channel, its global clock: the values that this node owns contain all updates from earlier clocks.
    global: Box<[AtomicU32]>,
    /// Per channel and owner: this node's replicas contain the owner's updates from before this clock.
    fresh: Box<[AtomicU32]>,
    workers: Mutex<WorkerClocks>,
}

impl Clocks {
    /// The clocks of a node's `workers` at the start; `staleness` is the first bound.
    pub(super) fn new(layout: Arc<Layout>, policy: &Policy, workers: usize, staleness: u32) -> Self {
        let (nodes, channels) = (layout.nodes(), layout.channels());
        let atomics = |count: usize| (0..count).map(|_| AtomicU32::new(0)).collect();
        let bounds = policy.replicas.filter(|replicas| replicas.is_clocked()).map(|_| Bounds {
            staleness: AtomicU32::new(staleness),
            global: atomics(channels),
            fresh: atomics(channels * nodes),
            workers: Mutex::new(WorkerClocks::new(workers)),
        });
        // A single node owns every key: intents change nothing.
        let board = policy.intents.filter(|_| nodes > 1).map(|_| Board::new(workers, channels));
        Self { layout, bounds, board }
    }

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
    #[inline]
    pub fn staleness_bound(&self) -> Option<u32> {
        // Relaxed: see above.
        self.bounds.as_ref().map(|bounds| bounds.staleness.load(Ordering::Relaxed))
    }

    /// The worker advances its clock to `clock`.
    #[inline(never)]
    pub fn advance<E: Element>(&self, local: &mut Local<E>, clock: Clock) -> Advanced {
        local.set_clock(clock.0.min(RESTING - 1));
        let worker = local.worker().index();
        Advanced {
            clock: self.tell(worker, local.clock()),
            wake: self.board.as_ref().map_or_else(Vec::new, |board| board.advance(worker, local.clock())),
        }
    }

    /// The worker enters a meeting of all workers, or is finished: other workers do not wait for it until its
    /// next [`Clocks::advance`], which all workers of all nodes call with the latest clock of any of them. As
    /// after that call, the caller must notify the channels.
    #[must_use]
    pub fn rest(&self, worker: WorkerId) -> Option<NodeClock> {
        self.tell(worker.index(), RESTING)
    }

    /// The worker is finished: as [`Clocks::rest`], and all its intents end.
    #[inline(never)]
    pub fn retire(&self, worker: WorkerId) -> Advanced {
        Advanced {
            clock: self.rest(worker),
            wake: self.board.as_ref().map_or_else(Vec::new, |board| board.advance(worker.index(), FINISHED)),
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

    fn tell(&self, worker: usize, clock: u32) -> Option<NodeClock> {
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
    #[inline]
    pub(crate) fn need(&self, clock: u32) -> u32 {
        self.staleness_bound().map_or(0, |staleness| clock.saturating_sub(staleness))
    }

    /// Whether the technique bounds staleness.
    #[inline]
    pub(super) fn is_bounded(&self) -> bool {
        self.bounds.is_some()
    }

    /// Whether a copy has every update up to clock `need`. `owner` computes who sends this node updates of
    /// the key.
    #[inline(always)]
    pub(super) fn is_fresh(
        &self,
        key: Key,
        state: &SlotState,
        need: u32,
        owner: impl FnOnce() -> NodeId,
    ) -> bool {
        let Some(bounds) = &self.bounds else { return true };
        if need == 0 || (state.role == Role::Replica && state.side >= need) {
            return true;
        }
        let channel = self.layout.channel(key).index();
        let clock = if state.role == Role::Replica {
            &bounds.fresh[channel * self.layout.nodes() + owner().index()]
        } else {
            &bounds.global[channel]
        };
        clock.load(Ordering::Acquire) >= need
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
