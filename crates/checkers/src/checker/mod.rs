//! The probe that searches for defects: it keeps its own accounts of what workers, channels and nodes of a
//! simulated cluster do (`crate::invariants`), compares the engines with them, and marks which situations
//! the run has reached.
//!
//! | file | observes |
//! | --- | --- |
//! | `calls` | calls of workers, answers to them, and how often messages are forwarded |
//! | `inputs` | a channel that handles an input: its state before, its state and its actions after |
//! | `replicas` | what a channel does about replicas |
//! | `intents` | how channels act on intents |
//! | `rest` | a cluster that rests |
//!
//! `tasks` trains tasks on clusters that have this probe.

mod calls;
mod inputs;
mod intents;
mod replicas;
mod rest;
mod tasks;
mod watched;

pub use tasks::{resume_task, run_task};

use crate::invariants::{
    Bounded, Hops, Intents, Invariants, Knowledge, Ledger, Merged, Owners, Queued, Replies, Rounds,
    check_mirrors, intents::FINISHED,
};
use intendant_core::{Element, Key, Layout, NodeId};
use intendant_engine::{Action, Input, LocalAccess, ReplicationConfig};
use intendant_sim::Finding;
use intendant_sim::cluster::{Call, Cluster, ClusterConfig, Probe, Seen};
use intendant_sim::reach::Marker;
use intendant_techniques::clocks::RESTING;
use intendant_techniques::{KeyTechnique, Policy, Role, StaticReplicas};
use std::ops::Range;
use std::sync::Arc;
use watched::{Watch, WatchedInput};

/// A cluster whose invariants are checked.
pub type Checked<E> = Cluster<E, Checker>;

/// All invariants of messages, calls and nodes. Those on messages and calls are checked when the message or
/// call happens, those on the state of nodes at every event or at rest.
pub struct Checker {
    layout: Arc<Layout>,
    policy: Policy,
    access: LocalAccess,
    workers_per_node: usize,
    /// Whether nodes read in each other's windows.
    has_windows: bool,
    invariants: Invariants,
    watch: Watch,
    /// First key whose copies the next check at rest compares.
    compared: u64,
    /// By station, then node: the last clock received.
    clocks_received: Vec<u32>,
}

impl Checker {
    /// A probe for a cluster of this configuration, on which nothing has happened yet.
    #[must_use]
    pub fn new<E>(config: &ClusterConfig<E>) -> Self {
        let ClusterConfig { layout, policy, replication, workers, storage, .. } = config;
        let (nodes, channels) = (layout.nodes(), layout.channels());
        let stations = nodes * channels;
        let static_replicas = keys_with_static_replicas(layout, policy, replication);
        let has_copies = policy.replicas.is_some() || policy.static_replicas.is_some();
        let slack = has_copies.then_some(3 * layout.keys() + 2 * *workers as u64 + 3);
        let intents = policy.intents.filter(|_| nodes > 1);
        Self {
            layout: Arc::clone(layout),
            policy: *policy,
            access: config.access,
            workers_per_node: *workers,
            has_windows: config.windows().is_some(),
            invariants: Invariants {
                ledger: Ledger::new(layout),
                owners: Owners::new(layout, *storage, policy.replicas.is_some(), static_replicas),
                knowledge: Knowledge::new(layout, *storage, policy),
                queued: Queued::default(),
                replies: Replies::new(stations),
                hops: Hops::new(policy),
                bounded: Bounded::new(stations, slack),
                merged: Merged::default(),
                rounds: Rounds::new(nodes, channels),
                intents: intents.map(|intents| Intents::new(intents, nodes, channels, *workers)),
            },
            watch: Watch::default(),
            compared: 0,
            clocks_received: Vec::new(),
        }
    }

    /// The owner of a key, or its next owner while the key moves.
    #[must_use]
    pub fn owner(&self, key: Key) -> NodeId {
        self.invariants.ledger.place(key).node
    }

    /// Whether `node` owns the key and has its value.
    #[must_use]
    pub fn is_at(&self, key: Key, node: NodeId) -> bool {
        let place = self.invariants.ledger.place(key);
        place.node == node && !place.in_flight
    }

    /// Checks, when no event is left, that channels that may act have acted on all intents.
    ///
    /// # Errors
    /// If an intent has been signalled, begun or ended unnoticed.
    pub fn check_settled(&self) -> Result<(), Finding> {
        self.invariants.intents.as_ref().map_or(Ok(()), Intents::settled)
    }
}

impl<E: Element> Probe<E> for Checker {
    fn event(&mut self, seen: &mut Seen<'_, E>) -> Result<(), Finding> {
        let Invariants { owners, ledger, .. } = &mut self.invariants;
        owners.step(seen.nodes, ledger)?;
        if self.has_windows { check_mirrors(&self.layout, seen.nodes) } else { Ok(()) }
    }

    fn called(&mut self, seen: &mut Seen<'_, E>, call: Call<'_>) {
        self.record_call(seen.reach, call);
    }

    fn signalled(&mut self, worker: usize, keys: &[Key], window: Range<u32>) {
        let Self { invariants, layout, workers_per_node, .. } = self;
        let Some(intents) = &mut invariants.intents else { return };
        let first = worker / *workers_per_node * layout.channels();
        for channel in 0..layout.channels() {
            let own = |key: &Key| layout.channel(*key).index() == channel;
            let keys: Vec<Key> = keys.iter().copied().filter(own).collect();
            if !keys.is_empty() {
                intents.signalled(first + channel, worker, keys, window.clone());
            }
        }
    }

    fn advanced(&mut self, worker: usize, clock: u32) {
        if let Some(intents) = &mut self.invariants.intents {
            intents.advanced(worker, clock.min(RESTING - 1));
        }
    }

    fn finished(&mut self, worker: usize) {
        if let Some(intents) = &mut self.invariants.intents {
            intents.advanced(worker, FINISHED);
        }
    }

    fn before_input(&mut self, seen: &mut Seen<'_, E>, station: usize, input: &Input) {
        self.record_input(seen, station, input);
    }

    fn after_input(
        &mut self,
        seen: &mut Seen<'_, E>,
        station: usize,
        actions: &[Action],
    ) -> Result<(), Finding> {
        self.check_input(seen, station, actions)?;
        self.check_intents(seen, station)?;
        if matches!(self.watch.input, WatchedInput::Tick) {
            self.check_urgent(seen, station)?;
        }
        actions.iter().try_for_each(|action| self.check_action(seen, station, action))?;
        self.check_outstanding(seen, station)
    }

    fn at_rest(&mut self, seen: &mut Seen<'_, E>) -> Result<(), Finding> {
        self.check_all_answered()?;
        self.check_state_at_rest(seen)?;
        Self::check_accesses(seen)?;
        if self.invariants.owners.lazy() && seen.nodes.iter().any(|node| node.held() > 0) {
            seen.reach.mark(Marker::SparseMaterialised);
        }
        Ok(())
    }
}

/// The nodes that hold a replica of `key`.
#[must_use]
pub fn holders<E: Element>(cluster: &Checked<E>, key: Key) -> Vec<NodeId> {
    let nodes = cluster.nodes().iter().filter(|node| node.inspect().slot(key).role == Role::Replica);
    nodes.map(|node| node.node()).collect()
}

/// Per key, whether it has static replicas; empty if none has.
fn keys_with_static_replicas(layout: &Layout, policy: &Policy, replication: &ReplicationConfig) -> Vec<bool> {
    let has_static = |key| match policy.static_replicas {
        Some(StaticReplicas::All) => true,
        Some(StaticReplicas::Assigned) => replication.assignment.technique(key) == KeyTechnique::Replicate,
        None => false,
    };
    let several = layout.nodes() > 1 && policy.static_replicas.is_some();
    if several { (0..layout.keys()).map(|key| has_static(Key(key))).collect() } else { Vec::new() }
}
