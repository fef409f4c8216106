//! Draws a scenario from a seed.

mod intents;
mod replicas;

use super::{HUGE_ELEMENTS, Scenario};
use crate::lanes;
use crate::workload::Mode;
use intendant_core::{Combine, KeyOrder, Tick, Timing, random};
use intendant_engine::{LocalAccess, ReplicationConfig, Storage, WindowConfig};
use intendant_sim::cluster::Hosts;
use intendant_sim::{Charge, Delays, Dice, Faults, Machine, Network, Spread};
use intendant_techniques::{Initiator, Order};
use intendant_wire::Packing;

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
}
