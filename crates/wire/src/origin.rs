//! Which operation of which worker waits for an answer.

use intendant_core::{NodeId, WorkerId};

/// An operation of a worker; unique among the outstanding ones of that worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OpId(pub u32);

/// The operation of a worker that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The node of the worker: answers are sent directly to it.
    pub node: NodeId,
    /// The worker.
    pub worker: WorkerId,
    /// Its operation.
    pub op: OpId,
}
