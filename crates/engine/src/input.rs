//! The inputs of a channel, and the actions that it returns.

use bytes::Bytes;
use intendant_core::{Key, NodeId, Tick, WorkerId};
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
    /// It waits until an all-reduce has synchronised the static replicas.
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

/// The part of a worker's operation that belongs to one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The worker.
    pub worker: WorkerId,
    /// Its operation.
    pub op: OpId,
    /// What to do.
    pub work: Work,
}

/// What a submission asks for. Positions are those of the keys in the worker's call, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Accesses that the worker's thread could not serve.
    Access {
        /// What to do with the values.
        kind: AccessKind,
        /// The keys.
        keys: Vec<Key>,
        /// Per key, its position.
        positions: Vec<u32>,
        /// For a push or set, the elements of all keys, little-endian; for a pull empty.
        values: Bytes,
        /// The worker's clock.
        clock: u32,
        /// The clock that a copy must have reached so that a pull may read it.
        need: u32,
    },
    /// Keys that the worker relocates to this node.
    Localize {
        /// The keys.
        keys: Vec<Key>,
        /// Per key, its position.
        positions: Vec<u32>,
        /// When the worker made the call.
        issued: Tick,
    },
    /// The worker waits for an all-reduce.
    Synchronize {
        /// The operation's only position: the number of the channel.
        position: u32,
    },
}

impl Submission {
    /// What the operation does.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.work {
            Work::Access { kind, .. } => Kind::Access(kind),
            Work::Localize { .. } => Kind::Localize,
            Work::Synchronize { .. } => Kind::Synchronize,
        }
    }

    /// The keys; none if the operation synchronizes.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        match &self.work {
            Work::Access { keys, .. } | Work::Localize { keys, .. } => keys,
            Work::Synchronize { .. } => &[],
        }
    }

    /// Bytes of the values that a push or set brings.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        match &self.work {
            Work::Access { values, .. } => values.len(),
            Work::Localize { .. } | Work::Synchronize { .. } => 0,
        }
    }

    /// The positions in the worker's call: one per key.
    #[must_use]
    pub fn positions(&self) -> &[u32] {
        match &self.work {
            Work::Access { positions, .. } | Work::Localize { positions, .. } => positions,
            Work::Synchronize { position } => std::slice::from_ref(position),
        }
    }
}

/// The report that a part of an operation is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The operation.
    pub op: OpId,
    /// The positions of the call that are done.
    pub positions: Vec<u32>,
    /// For a pull, their values, little-endian.
    pub values: Bytes,
    /// For an access with [`LocalAccess::Queue`](crate::LocalAccess::Queue): how many of the keys were not
    /// here when the channel first looked for them, or had to wait for a fresher copy. `None` otherwise: then
    /// the worker itself has looked for them.
    pub late: Option<u32>,
}

/// Asks for a part of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotAsk {
    /// The worker that wants it.
    pub worker: WorkerId,
    /// Its operation.
    pub op: OpId,
    /// The node whose values the worker wants.
    pub owner: NodeId,
    /// First key wanted.
    pub start: Key,
    /// End of the keys wanted, excluded.
    pub end: Key,
    /// The position at which to continue; `None` at the start.
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
    /// Relocates those of the keys that this node owns to `to`
    /// ([`Initiator::Owner`](intendant_techniques::Initiator::Owner)).
    Relocate {
        /// The keys.
        keys: Vec<Key>,
        /// Their next owner.
        to: NodeId,
    },
    /// Sets up replicas of the keys here ([`Replicas::Directed`](intendant_techniques::Replicas::Directed)).
    Replicate {
        /// The keys.
        keys: Vec<Key>,
    },
    /// Drops replicas of the keys here.
    Unreplicate {
        /// The keys.
        keys: Vec<Key>,
    },
    /// The clock of this node's workers has changed.
    Clock(NodeClock),
    /// The time [`Channel::due`](crate::Channel::due) has been reached.
    Tick,
    /// The event for which the channel sleeps has happened: a worker has signalled an intent, or its clock
    /// has reached a value.
    Wake,
    /// No worker of this node has anything to do: synchronise all copies now.
    Settle,
    /// A message arrived from another node.
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
