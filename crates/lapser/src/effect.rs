//! The actions that a node asks of its caller, and how soon it looks again.

use crate::{FinishError, GetError, SetError};

/// An action. The caller executes all actions, in order, before it calls the node again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Copy `words` words at `remote` of the segment of node `from` to `into` of the node's own segment, and
    /// report the end by [`done`](crate::Node::done) or [`failed`](crate::Node::failed) with `id`. The copy
    /// may be torn.
    Read {
        /// The node with the words.
        from: usize,
        /// First word in its segment.
        remote: usize,
        /// First word in the node's own segment.
        into: usize,
        /// Number of words.
        words: usize,
        /// Identifies the operation; unique among those that have not ended.
        id: u64,
    },
    /// Copy `words` words at `local` of the node's own segment to `remote` of the segment of node `to`, give
    /// that node the hint afterwards, and report the end by [`done`](crate::Node::done) or
    /// [`failed`](crate::Node::failed) with `id`. Writes to a node arrive in order.
    Write {
        /// The node that gets the words.
        to: usize,
        /// First word in the node's own segment.
        local: usize,
        /// First word in the other segment.
        remote: usize,
        /// Number of words.
        words: usize,
        /// The hint with which the caller of the other node may call [`hint`](crate::Node::hint). It may be
        /// lost, or merged with an equal one.
        hint: Option<u32>,
        /// Identifies the operation; unique among those that have not ended.
        id: u64,
    },
    /// Give a worker its answer.
    Answer(Answer),
    /// Meet: tell all other nodes that this node has no operation in flight and will begin none. Then report
    /// with [`met`](crate::Node::met) that all nodes have told the same, or with
    /// [`meeting_failed`](crate::Node::meeting_failed) that a node cannot. Other nodes may still read and
    /// write the segment.
    Meet,
    /// Release the segment: deregister and unmap it. No node accesses it any more, or the node ends because
    /// of a failure.
    Release,
}

/// The end of a worker's operation. `op` is the number with which the worker began it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A get has its value: [`Node::value`](crate::Node::value) copies it, if it is called before anything
    /// else.
    Got {
        /// The operation.
        op: u64,
        /// The key.
        key: u64,
        /// The clock of the value; 0 if the item was never set, and the value is all zeros.
        clock: u64,
    },
    /// A get cannot have its value.
    NotGot {
        /// The operation.
        op: u64,
        /// Why.
        error: GetError,
    },
    /// A value was stored in the node's own segment, and the writes that push it were begun.
    Set {
        /// The operation.
        op: u64,
    },
    /// A set that waited for writes was refused.
    NotSet {
        /// The operation.
        op: u64,
        /// Why.
        error: SetError,
    },
    /// The node has finished. The caller may drop it.
    Finished {
        /// The operation.
        op: u64,
        /// Whether all nodes met.
        result: Result<(), FinishError>,
    },
}

/// How soon a node looks again at what it waits for. The defaults suit networks whose operations take
/// microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The pause, in nanoseconds, before another read of an item whose value was too old. It doubles up to
    /// the maximum.
    pub reread_ns_min: u64,
    /// The maximum of this pause, in nanoseconds.
    pub reread_ns_max: u64,
    /// The pause, in nanoseconds, between looks at a pushed item for which a get waits. Hints cause earlier
    /// looks; this pause is for lost hints. [`PushBySlack`](crate::Variant::PushBySlack) reads the item after
    /// it.
    pub recheck_ns: u64,
    /// The number of torn reads of an item in succession after which its gets fail. With the default of
    /// `reread_ns_max`, the default lasts ten seconds: longer than anything keeps a thread from completing a
    /// set.
    pub torn_reads_max: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { reread_ns_min: 1_000, reread_ns_max: 1_000_000, recheck_ns: 100_000, torn_reads_max: 10_000 }
    }
}
