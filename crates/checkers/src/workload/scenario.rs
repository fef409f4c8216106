//! The scenario of a run: cluster, workload, delays and faults, partly fixed by the mode and partly drawn
//! from the seed.

use super::Mode;
use super::intents::IntentSettings;
use super::replicas::{self, Stop};
use super::tally::Tally;
use crate::lanes;
use intendant_core::{
    Combine, Key, KeyOrder, Layout, LayoutBuilder, NodeId, Precision, Tick, Timing, random,
};
use intendant_engine::{LocalAccess, ReplicationConfig, Storage, WindowConfig};
use intendant_sim::Dice;
use intendant_sim::Faults;
use intendant_sim::cluster::Hosts;
use intendant_sim::{Charge, Delays, Machine, Network, Spread};
use intendant_techniques::{
    Initiator, KeyTechnique, Order, Policy, Replicas, StaticReplicaPace, StaticReplicas,
};
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

/// Elements of a huge value: two `f32` values of this length fill a frame.
pub(super) const HUGE_ELEMENTS: usize = 140_000;

/// One in this many runs has huge values; it takes as long as a hundred others.
const HUGE_ONCE_IN: u64 = 100;

/// One in this many runs changes values by a rule.
const RULES_ONCE_IN: u64 = 4;

/// Faults begin within one of these times. Runs last between 0.1 ms and some tens of milliseconds.
const FAULTS_WITHIN_NS: [u64; 3] = [100_000, 1_000_000, 20_000_000];

/// The order and caches of a run: those that the mode fixes; otherwise those drawn, unless the history might
/// then not be sequentially consistent. While keys move, outstanding operations of one worker may take
/// different ways.
fn consistent(mode: &Mode, asynchronous: bool, order: Order, caches: bool) -> (Order, bool) {
    let (needs_chain, moves) = match mode.relocation() {
        None => return (mode.order.unwrap_or(order), mode.caches.unwrap_or(caches)),
        Some(Initiator::Requester) => (false, asynchronous),
        Some(Initiator::Owner) => (asynchronous, asynchronous),
    };
    let caches = mode.caches.unwrap_or(caches && !(moves && mode.order == Some(Order::Fifo)));
    let chain = needs_chain || moves && (caches || mode.takes_ways());
    (mode.order.unwrap_or(if chain { Order::Chain } else { order }), caches)
}

/// In some runs, channels serve the workers of their own node through queues. (Drawn apart from the rest, so
/// that other runs do not depend on it.)
fn access(seed: u64) -> LocalAccess {
    let queues = Dice::new(random::stream(seed, &[7])).once_in(8);
    if queues { LocalAccess::Queue } else { LocalAccess::Shared }
}

/// In half of the runs, messages are packed. (Drawn apart, as above.)
fn packing(seed: u64) -> Packing {
    let mut dice = Dice::new(random::stream(seed, &[10]));
    Packing { key_lists: dice.once_in(3), compress: dice.once_in(3) }
}

/// In a third of the runs, nodes share hosts, and read in each other's windows: all of them, or some. In half
/// of these, keys of a shard share a place. (Drawn apart, as above.)
fn hosts(seed: u64) -> Option<Hosts> {
    let mut dice = Dice::new(random::stream(seed, &[9]));
    let nodes = dice.pick(&[2, 3, usize::MAX]);
    let windows = WindowConfig {
        places_max: dice.pick(&[1, u32::MAX]),
        lent: dice.pick(&[0, 1, 5, WindowConfig::default().lent]),
        ..WindowConfig::default()
    };
    dice.once_in(3).then_some(Hosts { nodes, windows })
}

/// Draws durations that make races likely: each step is fast, slow or very slow compared to the others. Work
/// takes no time.
pub(crate) fn draw_delays(dice: &mut Dice) -> Delays {
    let mut spread = || {
        let max_ns = dice.pick(&[1, 30, 300, 3_000, 30_000]);
        Spread { min_ns: 1, max_ns, tail_once_in: dice.pick(&[0, 4, 16]) }
    };
    let (worker, enqueue, turn) = (spread(), spread(), spread());
    let latency = spread();
    let (deliver, intake) = (spread(), spread());
    let network = Network { latency, byte_ps: 10, frame_bytes: 0 };
    let machine = Machine::infinitely_fast();
    Delays { worker, enqueue, turn, deliver, intake, network, machine, charge: Charge::ACTUAL, ipc: false }
}

impl Scenario {
    /// Draws the scenario of `seed`.
    #[must_use]
    pub fn draw(mode: &Mode, seed: u64) -> Self {
        let mut dice = Dice::new(random::stream(seed, &[0]));
        let dice = &mut dice;
        let drawn_nodes = dice.between(3, 5) as usize;
        let nodes = mode.nodes.unwrap_or(drawn_nodes);
        let workers = dice.between(1, 3) as usize;
        let lanes_min = lanes::len_min(nodes * workers);
        let mut lanes = vec![
            (dice.between(2, 24), lanes_min + dice.below(3) as usize),
            (dice.between(1, 8), 2 * lanes_min + dice.below(20) as usize),
        ];
        let huge = dice.once_in(HUGE_ONCE_IN);
        if huge {
            lanes.push((2 * nodes as u64, HUGE_ELEMENTS));
        }
        let asynchronous = dice.once_in(2);
        let order = dice.pick(&[Order::Fifo, Order::Chain]);
        let storage = dice.pick(&[Storage::Dense, Storage::Sparse]);
        let caches = dice.once_in(2);
        let in_flight = dice.pick(&[2, 3, 8]);
        let asynchronous = mode.asynchronous.unwrap_or(asynchronous);
        let (order, caches) = if mode.has_copies() {
            let order = if asynchronous && (caches || mode.takes_ways()) && mode.has_static_replicas() {
                Order::Chain
            } else {
                order
            };
            // Where keys never move, techniques with replicas do not use hints, so none are planted.
            let caches = mode.caches.unwrap_or(caches && mode.relocation().is_some());
            (mode.order.unwrap_or(order), caches)
        } else {
            consistent(mode, asynchronous, order, caches)
        };
        let delays = draw_delays(dice);
        let horizon_ns = dice.pick(&FAULTS_WITHIN_NS);
        let faulty = dice.once_in(4);
        let faults = if mode.faults.unwrap_or(faulty) {
            Faults::random(seed, nodes, horizon_ns)
        } else {
            Faults::none()
        };
        let drawn = Self {
            seed,
            policy: mode.policy(order, caches, Tick(1)),
            replication: ReplicationConfig::default(),
            stops: Vec::new(),
            bounds: Vec::new(),
            clock_once_in: Vec::new(),
            intents: None,
            nodes,
            workers,
            channels: dice.between(1, 3) as usize,
            shards: dice.pick(&[4, 8, 16]),
            key_order: dice.pick(&[KeyOrder::Random, KeyOrder::Range, KeyOrder::Hash]),
            hot_keys: dice.between(1, 3),
            moves_in_16: dice.pick(&[1, 3, 8]),
            call_keys_max: dice.pick(&[1, 3, 6]),
            lanes,
            combine: Combine::Sum,
            packing: packing(seed),
            rules: None,
            registers: dice.between(1, 3),
            calls: mode.calls,
            in_flight_max: if asynchronous { in_flight } else { 0 },
            outstanding_bytes_max: dice.pick(&[1, 400, 2_000, 64 << 20]),
            snapshot_bytes_max: dice.pick(&[1, 300, 1 << 20]),
            storage: mode.storage.unwrap_or(storage),
            access: access(seed),
            hosts: hosts(seed),
            stale_hints: caches && mode.relocation().is_none() && !mode.has_copies(),
            double: dice.once_in(8),
            huge,
            delays,
            faults,
        };
        let mut drawn = if mode.has_copies() { replicas::draw(mode, drawn) } else { drawn };
        // Drawn apart from the rest, so that other runs do not depend on it.
        let mut dice = Dice::new(random::stream(seed, &[7]));
        let plain = drawn.combine == Combine::Sum
            && drawn.replication.clip.is_none()
            && !drawn.huge
            && !drawn.is_rounded();
        if dice.once_in(RULES_ONCE_IN) && plain {
            let at_clocks = drawn.is_clocked() && dice.once_in(2);
            drawn.rules = Some(if at_clocks { Timing::Clock } else { Timing::Push });
        }
        drawn
    }

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
