//! What is recorded of a channel's input for the checks.

use intendant_core::{Key, NodeId, WorkerId};
use intendant_techniques::SlotState;
use intendant_wire::{ClockScope, OpId, Origin, ReplicaRequestKind, ReplicaUpdateKind};

/// The kind of an input, as far as checks distinguish it.
#[derive(Clone, Copy, Default)]
pub(super) enum WatchedInput {
    /// An input that no check needs.
    #[default]
    Other,
    /// An access of a worker or another node.
    Access {
        origin: Origin,
        /// The sending node; `None` if a worker of this node submitted the access.
        from: Option<NodeId>,
        hops: u8,
    },
    /// A worker of this node localizes keys.
    LocalizeCall,
    /// This node decides to hand keys over.
    MoveDecision,
    Response,
    Localize(NodeId),
    Void,
    Relocate,
    /// A report of intents to a home. The first `begun` keys begin, the others end.
    IntentReport {
        from: NodeId,
        begun: usize,
    },
    HandOver,
    Moved,
    ReplicaRequest {
        kind: ReplicaRequestKind,
        holder: NodeId,
    },
    ReplicaUpdate(ReplicaUpdateKind),
    Clock {
        from: NodeId,
        scope: ClockScope,
        clock: u32,
    },
    Reduce {
        round: u32,
    },
    Synchronize {
        worker: WorkerId,
        op: OpId,
    },
    Settle,
    Tick,
}

/// What is recorded about an input while the engine handles it.
#[derive(Default)]
pub(super) struct Watch {
    /// The kind of the input.
    pub(super) input: WatchedInput,
    /// Number of keys of a submitted access.
    pub(super) submitted: usize,
    /// The keys of the input, if a check needs them.
    pub(super) keys: Vec<Key>,
    /// Positions of an access, parallel to `keys`.
    pub(super) positions: Vec<u32>,
    /// Relocation counters of a message, parallel to `keys`.
    pub(super) counters: Vec<u32>,
    /// Generations, and numbers of deltas or clocks, of a replica message; parallel to `keys`.
    pub(super) generations: Vec<u32>,
    pub(super) numbers: Vec<u32>,
    /// The slots of `keys` before the input; empty if no check needs them.
    pub(super) slots: Vec<SlotState>,
    /// The channel's counters before the input: queued accesses, localization conflicts.
    pub(super) queued: u64,
    pub(super) conflicts: u64,
    /// The channel's counter before the input: reads that waited for the staleness bound.
    pub(super) stale_reads: u64,
}
