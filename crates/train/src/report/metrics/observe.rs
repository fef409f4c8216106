//! What metrics read of a node.

use intendant::{Failure, ManagementStats, NetworkStats};
use intendant_sampling::SamplingStats;

/// What is read of a node on another thread.
pub(crate) trait Observe: Send + Sync + 'static {
    /// Messages that the node has sent so far.
    fn traffic(&self) -> NetworkStats;

    /// Statistics of its parameter management so far; `None` if the cluster has ended.
    fn management(&self) -> Option<ManagementStats>;

    /// Statistics of its sampling so far.
    fn sampling(&self) -> SamplingStats;

    /// Values that it holds.
    fn held(&self) -> usize;

    /// Commands that wait for its channels.
    fn inbox_commands(&self) -> usize;

    /// Why the cluster has ended, if it has.
    fn failure(&self) -> Option<Failure>;
}
