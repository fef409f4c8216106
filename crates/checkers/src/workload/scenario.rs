//! The scenario of a run: cluster, workload, delays and faults, partly fixed by the mode and partly drawn
//! from the seed.

mod draw;

pub(crate) use draw::draw_delays;

use super::tally::Tally;
use crate::lanes;
use intendant_core::{Combine, Key, KeyOrder, Layout, LayoutBuilder, NodeId, Precision, Timing};
use intendant_engine::{LocalAccess, ReplicationConfig, Storage};
use intendant_sim::cluster::Hosts;
use intendant_sim::{Delays, Faults};
use intendant_techniques::{KeyTechnique, Policy, Replicas, StaticReplicaPace, StaticReplicas};
use intendant_wire::Packing;
use std::ops::Range;

/// All parameters of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// The technique's policy, with order and caches.
    pub policy: Policy,
    /// Configuration of replicas.
    pub replication: ReplicationConfig,
    /// Stops of all workers, with equal parts of their calls between them.
    pub stops: Vec<Stop>,
    /// The staleness bound after each stop. It changes only at rests.
    pub bounds: Vec<u32>,
    /// Per worker, the mean number of calls between two advances of its clock; 0 if it never advances.
    pub clock_once_in: Vec<u64>,
    /// How workers signal intents; `None` if the technique ignores intents.
    pub intents: Option<IntentSettings>,
    /// Number of nodes.
    pub nodes: usize,
    /// Workers per node.
    pub workers: usize,
    /// Channels per node.
    pub channels: usize,
    /// Shards per store.
    pub shards: usize,
    /// How keys are assigned to homes.
    pub key_order: KeyOrder,
    /// Ranges of keys with version lanes: number of keys, and elements per value.
    pub lanes: Vec<(u64, usize)>,
    /// How the updates of several copies are combined. With [`Combine::AdaGrad`], the second half of each
    /// value is a value as it is otherwise, because accumulators are sums, and the first half is dust.
    pub combine: Combine,
    /// How nodes shorten their messages.
    pub packing: Packing,
    /// If pushes change values by a rule, `tally::Tally`, instead of being added: when.
    pub rules: Option<Timing>,
    /// Number of registers (keys that workers overwrite); they are the last keys.
    pub registers: u64,
    /// Number of keys with lanes that get most of the calls.
    pub hot_keys: u64,
    /// Calls of sixteen that relocate keys, if the technique relocates.
    pub moves_in_16: u64,
    /// Upper bound of the keys per call.
    pub call_keys_max: u64,
    /// Calls of all workers together.
    pub calls: u64,
    /// Upper bound of a worker's outstanding operations; 0 if it waits for each.
    pub in_flight_max: usize,
    /// Upper bound of a worker's outstanding bytes.
    pub outstanding_bytes_max: usize,
    /// Upper bound of the bytes of a snapshot part.
    pub snapshot_bytes_max: u32,
    /// Dense or sparse stores.
    pub storage: Storage,
    /// How workers access values of their node.
    pub access: LocalAccess,
    /// Hosts whose nodes read in each other's windows.
    pub hosts: Option<Hosts>,
    /// Whether nodes start with cached locations that are mostly wrong.
    pub stale_hints: bool,
    /// Whether elements are `f64`.
    pub double: bool,
    /// Whether the last range with lanes has huge values, so that calls take several frames.
    pub huge: bool,
    /// Durations of all steps.
    pub delays: Delays,
    /// Faults and their intervals.
    pub faults: Faults,
}

/// A stop of all workers between their calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// They meet and continue.
    Meeting,
    /// They meet and wait until the cluster rests.
    Rest,
    /// Each synchronises static replicas.
    Synchronisation,
}

/// How the workers of a run signal intents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntentSettings {
    /// Calls of sixteen that signal an intent.
    pub in_16: u64,
    /// Accesses of sixteen that access keys of an active intent of the worker.
    pub announced_keys_in_16: u64,
    /// Signals of sixteen that repeat the keys of an outstanding access of the worker: for its present clock,
    /// and again for a later one. Such a replica may be acquired and dropped while the access is in flight.
    pub reannounced_in_16: u64,
    /// Number of intents that each worker's loader signals.
    pub loader: u64,
    /// Upper bound of the pauses of loaders and, at times, workers, ns.
    pub pause_ns: u64,
    /// Upper bound of the clocks from the signal to the start of an intent, except for intents far ahead.
    pub ahead: u32,
    /// Upper bound of the usual length of an intent, in clocks.
    pub length: u32,
    /// Whether workers retire at the end; otherwise they rest.
    pub retires: bool,
    /// Whether workers call `resume` after a rest.
    pub resumes: bool,
}

/// Elements of a huge value: two `f32` values of this length fill a frame.
const HUGE_ELEMENTS: usize = 140_000;

impl Scenario {
    /// Whether `key` has static replicas.
    #[must_use]
    pub fn has_static_replicas(&self, key: Key) -> bool {
        self.nodes > 1
            && match self.policy.static_replicas {
                None => false,
                Some(StaticReplicas::All) => true,
                Some(StaticReplicas::Assigned) => {
                    self.replication.assignment.technique(key) == KeyTechnique::Replicate
                }
            }
    }

    /// Whether operations on `key` are sequentially consistent over all nodes.
    #[must_use]
    pub fn is_sequential(&self, key: Key) -> bool {
        self.policy.replicas.is_none() && !self.has_static_replicas(key)
    }

    /// Whether updates of `key` may be clipped.
    #[must_use]
    pub fn is_clipped(&self, key: Key) -> bool {
        self.replication.clip.is_some() && self.has_static_replicas(key)
    }

    /// Whether workers of `node` may set `key`. If several nodes set their static replicas of a key, the
    /// all-reduce adds the differences up. So only one node may set such a key, and none if updates are
    /// clipped.
    #[must_use]
    pub fn may_set(&self, node: NodeId, key: Key) -> bool {
        !self.has_static_replicas(key)
            || self.rules.is_none()
                && self.replication.clip.is_none()
                && key.0 % self.nodes as u64 == u64::from(node.0)
    }

    /// Whether a worker sees its own pushes of `key` in its next pull.
    #[must_use]
    pub fn shows_own_pushes(&self) -> bool {
        self.rules != Some(Timing::Clock)
    }

    /// Whether staleness is bounded by clocks.
    #[must_use]
    pub fn is_clocked(&self) -> bool {
        self.policy.replicas.is_some_and(Replicas::is_clocked)
    }

    /// Whether elements of deltas and of values for replicas are rounded.
    #[must_use]
    pub fn is_rounded(&self) -> bool {
        self.replication.precision == Precision::Bf16
    }

    /// What a push adds to its lane. Where elements are rounded, the number has more digits than remain.
    #[must_use]
    pub fn unit(&self) -> f64 {
        if self.is_rounded() { lanes::LONG_UNIT } else { 1.0 }
    }

    /// Whether static replicas are synchronised only when workers ask for it.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.policy.static_replicas.is_some() && self.replication.pace == StaticReplicaPace::Asked
    }

    /// The part of a value that has lanes or is a register.
    #[must_use]
    pub fn counted<'a, T>(&self, value: &'a [T]) -> &'a [T] {
        match self.combine {
            Combine::Sum => value,
            Combine::AdaGrad => &value[value.len() / 2..],
        }
    }

    /// Number of workers of all nodes, and of lanes.
    #[must_use]
    pub fn all_workers(&self) -> usize {
        self.nodes * self.workers
    }

    /// The keys that workers overwrite.
    #[must_use]
    pub fn registers(&self) -> Range<u64> {
        let start = self.lanes.iter().map(|(keys, _)| keys).sum();
        start..start + self.registers
    }

    /// The layout of keys and nodes.
    ///
    /// # Panics
    /// If the mode has more nodes than a layout allows.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let mut builder = Layout::builder();
        let range = |builder: LayoutBuilder, name: &str, keys, len| match self.rules {
            Some(timing) => builder.range_with_rule(name, keys, len, Tally(timing)),
            None => builder.range(name, keys, len),
        };
        for (at, (keys, len)) in self.lanes.iter().enumerate() {
            builder = range(builder, &format!("lanes{at}"), *keys, *len);
        }
        let register = match self.combine {
            Combine::Sum => 3,
            Combine::AdaGrad => 6,
        };
        builder = range(builder, "registers", self.registers, register).combine(self.combine);
        builder = builder.nodes(self.nodes).channels(self.channels);
        let built = builder.shards(self.shards).order(self.key_order).seed(self.seed).build();
        built.unwrap_or_else(|error| panic!("a scenario within the limits: {error}"))
    }
}
