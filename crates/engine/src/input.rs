//! What a channel is told, and what it wants done.

use crate::local::Local;
use bytes::Bytes;
use intendant_core::{Element, Key, NodeId, Tick, WorkerId};
use intendant_techniques::clocks::NodeClock;
use intendant_wire::{AccessKind, Cursor, Message, OpId, SnapshotPart};
use std::fmt;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It accesses values.
    Access(AccessKind),
    /// It moves keys to this node.
    Localize,
    /// It waits until static replicas have been brought in step.
    Synchronize,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access(kind) => write!(f, "{kind:?}"),
            Self::Localize => f.write_str("Localize"),
            Self::Synchronize => f.write_str("Synchronize"),
        }
    }
}

/// The keys of a worker's operation that belong to one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The worker.
    pub worker: WorkerId,
    /// The operation.
    pub op: OpId,
    /// What to do.
    pub kind: Kind,
    /// The keys.
    pub keys: Vec<Key>,
    /// Their positions in the call, ascending; to synchronize, the number of the channel.
    pub positions: Vec<u32>,
    /// For a push or set, the elements of all keys, little-endian.
    pub values: Bytes,
    /// When the worker made the call; used for a localize only.
    pub issued: Tick,
    /// The worker's clock.
    pub clock: u32,
    /// The clock that what a pull reads must have reached.
    pub need: u32,
}

impl Submission {
    pub(crate) fn new<E: Element>(local: &Local<E>, op: OpId, kind: Kind, need: u32, issued: Tick) -> Self {
        let (keys, positions, values) = (Vec::new(), Vec::new(), Bytes::new());
        let (worker, clock) = (local.worker(), local.clock());
        Self { worker, op, kind, keys, positions, values, issued, clock, need }
    }

    /// With memory for so many keys.
    pub(crate) fn with_room(mut self, keys: usize) -> Self {
        self.keys.reserve(keys);
        self.positions.reserve(keys);
        self
    }

    pub(crate) fn add(&mut self, key: Key, position: u32) {
        self.keys.push(key);
        self.positions.push(position);
    }
}

/// A part of an operation is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The operation.
    pub op: OpId,
    /// Which positions of the call.
    pub positions: Vec<u32>,
    /// For a pull, their values, little-endian.
    pub values: Bytes,
}

/// Asks for a part of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotAsk {
    /// The worker that wants it.
    pub worker: WorkerId,
    /// Its operation.
    pub op: OpId,
    /// Whose values.
    pub owner: NodeId,
    /// First key wanted.
    pub start: Key,
    /// End of the keys wanted, excluded.
    pub end: Key,
    /// Where to continue; `None` at the start.
    pub cursor: Option<Cursor>,
    /// Bytes of values after which the part ends.
    pub bytes_max: u32,
}

/// What happens to a channel.
#[derive(Clone, Debug)]
pub enum Input {
    /// A worker of this node deferred keys.
    Submit(Submission),
    /// A worker of this node wants a part of a snapshot.
    Snapshot(SnapshotAsk),
    /// Whoever decides about keys under [`intendant_techniques::Initiator::Owner`] wants these moved to `to`, those that this
    /// node owns at least.
    Relocate {
        /// The keys.
        keys: Vec<Key>,
        /// Their next owner.
        to: NodeId,
    },
    /// Whoever decides about replicas under [`intendant_techniques::Replicas::Directed`] wants some of these keys here.
    Replicate {
        /// The keys.
        keys: Vec<Key>,
    },
    /// The same wants them no longer.
    Unreplicate {
        /// The keys.
        keys: Vec<Key>,
    },
    /// The clock of this node's workers has changed.
    Clock(NodeClock),
    /// [`crate::Channel::due`] has come.
    Tick,
    /// A worker has announced something, or its clock has come to something, that the channel sleeps for.
    Wake,
    /// No worker of this node has anything to do: bring all copies in step, now.
    Settle,
    /// A message came from another node.
    Message {
        /// The node that sent it.
        from: NodeId,
        /// The message.
        message: Message,
    },
}

/// What the caller has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Give the message to the transport; order towards one node must be kept.
    Send {
        /// The node.
        to: NodeId,
        /// The message.
        message: Message,
    },
    /// Hand this to a worker of this node; order towards one worker must be kept.
    Complete {
        /// The worker.
        worker: WorkerId,
        /// What is done.
        completion: Completion,
    },
    /// Hand this to a worker of this node.
    CompleteSnapshot {
        /// The worker.
        worker: WorkerId,
        /// The part.
        part: SnapshotPart,
    },
}
