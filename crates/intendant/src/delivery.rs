//! Messages to a worker from other threads.

use intendant_control::Failure;
use intendant_engine::Completion;
use intendant_wire::SnapshotPart;

/// A message to a worker.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// Operations are done, or parts of them.
    Completions(Vec<Completion>),
    /// A part of a snapshot.
    Snapshot(SnapshotPart),
    /// The cluster has failed.
    Failed(Failure),
}
