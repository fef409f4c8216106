//! What is known of the trace of a node.

use serde::{Deserialize, Serialize};

/// What is known of the trace of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// The node.
    pub node: u16,
    /// The name of its file; `None` if there is none.
    pub file: Option<String>,
    /// When its clock was 0, in microseconds since 1970; 0 if the run is simulated.
    pub epoch_us: u64,
    /// Its events.
    pub events: u64,
    /// Events that the node has dropped, because they did not fit its memory.
    pub dropped: u64,
    /// Events of kinds that this version does not know.
    pub unknown: u64,
    /// Events that name a node outside of the cluster or a time after the year 2255: they are left out.
    pub refused: u64,
    /// Bytes at the end of its file that are no complete block: the node was killed, or the file is damaged
    /// there.
    pub lost_bytes: u64,
    /// Bytes in the middle of its file that are no complete block: the file is damaged there.
    #[serde(default, skip_serializing_if = "is_none")]
    pub damaged_bytes: u64,
    /// Added to the times of the node's own clock, in microseconds.
    pub offset_us: i64,
    /// How much the offset may be wrong relative to the first node; `None` if that is not known.
    pub error_us: Option<u64>,
}

/// The numbers of older files have no such field, and so it is not among what their sums are of.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Whether all events of a node are there.
pub(crate) fn is_complete(info: &NodeInfo) -> bool {
    [info.dropped, info.unknown, info.refused, info.lost_bytes, info.damaged_bytes] == [0; 5]
}
