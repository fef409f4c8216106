//! Events of parameters that were recorded.

use intendant_core::NodeId;
use intendant_trace::Event;

/// What is recorded, and not taken yet.
pub(super) struct Recording {
    pub(super) events: Vec<(NodeId, Event)>,
    /// By connection, bytes that are not recorded yet.
    pub(super) sent: Vec<u64>,
    /// When they will be.
    pub(super) due_ns: u64,
}
