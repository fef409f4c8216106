//! What a cluster consists of: keys, nodes, technique, delays, faults.

use crate::delays::Delays;
use crate::faults::Faults;
use intendant_core::{Initialiser, Layout};
use intendant_engine::{LocalAccess, ReplicationConfig, Storage, WindowConfig, Windows};
use intendant_techniques::Policy;
use intendant_wire::Packing;
use std::sync::Arc;

/// Configuration of a cluster. The layout holds the numbers of nodes and channels.
#[derive(Clone)]
pub struct ClusterConfig<E> {
    /// Keys, nodes, channels.
    pub layout: Arc<Layout>,
    /// Initial values.
    pub init: Initialiser<E>,
    /// Dense or sparse stores.
    pub storage: Storage,
    /// How workers access values of their node.
    pub access: LocalAccess,
    /// The policy of the technique.
    pub policy: Policy,
    /// Configuration of replicas; ignored by techniques without replicas.
    pub replication: ReplicationConfig,
    /// Which nodes read in each other's windows; `None` if none does. Ignored by techniques without windows.
    pub hosts: Option<Hosts>,
    /// Workers per node.
    pub workers: usize,
    /// Upper bound of the value bytes that a worker may have outstanding.
    pub outstanding_bytes_max: usize,
    /// Whether nodes start with cached locations that are mostly wrong.
    pub stale_hints: bool,
    /// Durations of all steps.
    pub delays: Delays,
    /// Faults and their intervals.
    pub faults: Faults,
    /// Upper bound of events; a run that exceeds it fails.
    pub events_max: u64,
    /// How nodes shorten the messages that they send.
    pub packing: Packing,
    /// Seed of all random choices.
    pub seed: u64,
    /// Whether to keep a readable trace.
    pub trace: bool,
}

/// Hosts whose nodes read values in each other's windows, at the moment of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// Nodes per host. Consecutive nodes share one.
    pub nodes: usize,
    /// The size of windows and loans.
    pub windows: WindowConfig,
}

impl<E> ClusterConfig<E> {
    /// The hosts whose nodes read in each other's windows. `None` if no node does: each host has one node, or
    /// the technique has no windows.
    #[must_use]
    pub fn windows(&self) -> Option<Hosts> {
        self.hosts.filter(|hosts| hosts.nodes > 1 && Windows::are_used(&self.policy, &self.layout))
    }
}
