//! What is known about the trace of a node.

use serde::{Deserialize, Serialize};

/// What is known about the trace of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// The node.
    pub node: u16,
    /// The name of its file; `None` if there is none.
    pub file: Option<String>,
    /// When its clock was 0, in microseconds since 1970; 0 if the run is simulated.
    pub epoch_us: u64,
    /// The number of its events.
    pub events: u64,
    /// Events that the node has dropped because they did not fit into its memory or because the disk was
    /// full.
    pub dropped: u64,
    /// Events of kinds that this version does not know.
    pub unknown: u64,
    /// Events that name a node outside of the cluster or a time beyond 285 years: they are left out.
    pub refused: u64,
    /// Bytes at the end of its file that do not form a complete block: the node was killed, or the file is
    /// damaged there.
    pub lost_bytes: u64,
    /// Bytes in the middle of its file that do not form a complete block: the file is damaged there.
    #[serde(default, skip_serializing_if = "is_none")]
    pub damaged_bytes: u64,
    /// The offset that is added to the times of the node's own clock, in microseconds.
    pub offset_us: i64,
    /// By how much the offset relative to the first node may be wrong; `None` if that is not known.
    pub error_us: Option<u64>,
}

/// Older files do not have this field, so their checksums do not cover it. A count of 0 is therefore not
/// serialised.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Whether no events of a node are missing.
pub(crate) fn is_complete(info: &NodeInfo) -> bool {
    [info.dropped, info.unknown, info.refused, info.lost_bytes, info.damaged_bytes] == [0; 5]
}
