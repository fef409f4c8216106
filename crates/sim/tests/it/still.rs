//! Clusters in which nothing happens that a test does not cause.

use intendant_checkers::checker::{Checked, Checker};
use intendant_core::{KeyOrder, LayoutBuilder};
use intendant_engine::{LocalAccess, ReplicationConfig, Storage};
use intendant_sim::cluster::{Cluster, ClusterConfig};
use intendant_sim::{Charge, Delays, Faults, Machine, Network};
use intendant_techniques::Technique;
use std::sync::Arc;

/// A cluster with a classic server, one worker per node and infinitely fast machines. Initial values are
/// zero. Keys are at home in the order of their numbers.
pub(crate) fn config(layout: LayoutBuilder, network: Network) -> ClusterConfig<f32> {
    ClusterConfig {
        layout: Arc::new(layout.order(KeyOrder::Range).shards(4).build().unwrap()),
        init: Arc::new(|_, value| value.fill(0.0)),
        storage: Storage::Dense,
        access: LocalAccess::Shared,
        policy: Technique::Classic.policy(),
        replication: ReplicationConfig::default(),
        hosts: None,
        workers: 1,
        outstanding_bytes_max: usize::MAX,
        stale_hints: false,
        delays: Delays::of(Machine::infinitely_fast(), network, Charge::ACTUAL),
        faults: Faults::none(),
        events_max: u64::MAX,
        packing: intendant_wire::Packing::default(),
        seed: 1,
        trace: false,
    }
}

/// A cluster with all checks.
pub(crate) fn checked(config: ClusterConfig<f32>) -> Checked<f32> {
    let checker = Checker::new(&config);
    Cluster::with_probe(config, checker)
}
