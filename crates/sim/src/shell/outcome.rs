//! What comes of a simulated run.

use super::meter::EpochOutcome;
use crate::reach::Reach;
use intendant_core::Key;
use intendant_engine::{AccessStats, Explanation, ManagementStats, NetworkStats};
use intendant_task::Reduction;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct TaskOutcome<E> {
    /// The epochs, in order.
    pub epochs: Vec<EpochOutcome>,
    /// The test evaluation, summed over all workers, if there was one.
    pub test: Option<Reduction>,
    /// Sums over all workers: one per epoch, then one of the test evaluation if there is one.
    pub combined: Vec<Reduction>,
    /// The values of all keys at the end, concatenated.
    pub values: Vec<E>,
    /// Accesses of all workers.
    pub accesses: AccessStats,
    /// Management counters of all nodes.
    pub management: ManagementStats,
    /// What all nodes have sent, in charged bytes ([`Charge`](crate::Charge)).
    pub traffic: NetworkStats,
    /// Virtual time of the last activity, ns.
    pub virtual_ns: u64,
    /// Number of events.
    pub events: u64,
    /// Hash of all events and messages; equal runs have equal hashes.
    pub hash: u64,
    /// Per node, why the keys of `ReplicationConfig::watched` are where they are.
    pub explanations: Vec<Vec<(Key, Explanation)>>,
    /// The last cut, if it is a checkpoint, or why it is none. A run without cuts has none.
    pub last_cut: Result<Option<u64>, String>,
    /// Reach markers.
    pub reach: Reach,
}
