//! Scenario parts for techniques with replicas: static replicas, pace, staleness bounds, clocks and stops.

use super::intents;
use crate::lanes;
use crate::workload::scenario::HUGE_ELEMENTS;
use crate::workload::{Mode, Scenario, Stop};
use intendant_core::{Combine, Key, Precision, Tick, random};
use intendant_engine::ReplicationConfig;
use intendant_sim::Dice;
use intendant_techniques::{Assignment, KeyTechnique, Replicas, StaticReplicaPace, StaticReplicas};

/// One in this many runs has values that take several frames.
const HUGE_ONCE_IN: u64 = 400;

/// One in this many runs combines updates by the rule of AdaGrad. (Drawn apart from the rest, so that other
/// runs do not depend on it.)
const COMBINED_ONCE_IN: u64 = 4;

/// Draws the parts of a scenario that concern replicas.
pub(super) fn draw(mode: &Mode, mut scenario: Scenario) -> Scenario {
    let mut dice = Dice::new(random::stream(scenario.seed, &[3]));
    let dice = &mut dice;
    if mode.has_static_replicas() && mode.nodes.is_none() {
        set_nodes(&mut scenario, dice.between(2, 9) as usize);
    }
    // One element for dust.
    scenario.lanes.iter_mut().for_each(|(_, len)| *len += 1);
    let huge = std::mem::take(&mut scenario.huge);
    if huge {
        scenario.lanes.pop();
    }
    if dice.once_in(HUGE_ONCE_IN) {
        scenario.huge = true;
        scenario.lanes.push((4, HUGE_ELEMENTS));
    }
    if !scenario.huge && Dice::new(random::stream(scenario.seed, &[5])).once_in(COMBINED_ONCE_IN) {
        scenario.combine = Combine::AdaGrad;
        scenario.lanes.iter_mut().for_each(|(_, len)| *len *= 2);
    }
    let every = every(&scenario, dice);
    if let Some(replicas) = mode.replicas(every) {
        scenario.policy.replicas = Some(replicas);
    }
    let bounds = [0, 1, 1, 2, 5];
    let staleness = dice.pick(&bounds);
    let asked = dice.once_in(3);
    let clip = mode.has_static_replicas() && dice.once_in(6);
    scenario.replication = ReplicationConfig {
        assignment: assign(&scenario, dice),
        pace: if mode.asked.unwrap_or(asked) {
            StaticReplicaPace::Asked
        } else {
            StaticReplicaPace::Every(every)
        },
        clip: (clip && scenario.combine == Combine::Sum).then(|| dice.pick(&[0.5, 1.0, 1.5])),
        staleness: mode.staleness.unwrap_or(staleness),
        portion_bytes: portion_bytes(&scenario),
        significant: significant(&scenario),
        precision: precision(&scenario),
        ..ReplicationConfig::default()
    };
    if scenario.is_rounded() {
        scenario.call_keys_max = scenario.call_keys_max.min(3);
    }
    let clocked = scenario.is_clocked();
    scenario.clock_once_in = (0..scenario.all_workers())
        .map(|_| if clocked { dice.pick(&[0, 1, 2, 2, 4, 8]) } else { 0 })
        .collect();
    let kinds: &[Stop] = match (mode.has_static_replicas(), scenario.is_asked()) {
        (false, _) => &[Stop::Meeting, Stop::Rest],
        (true, false) => &[Stop::Meeting, Stop::Rest, Stop::Synchronisation],
        (true, true) => &[Stop::Meeting, Stop::Rest, Stop::Synchronisation, Stop::Synchronisation],
    };
    let most = if scenario.is_asked() { 12 } else { 4 };
    scenario.stops = (0..dice.below(most)).map(|_| dice.pick(kinds)).collect();
    let mut bound = scenario.replication.staleness;
    for stop in &scenario.stops {
        if *stop == Stop::Rest && mode.staleness.is_none() && dice.once_in(2) {
            bound = dice.pick(&bounds);
        }
        scenario.bounds.push(bound);
    }
    if clocked && mode.staleness.is_none() && dice.once_in(2) {
        advance_with_every_call(mode, &mut scenario);
    }
    intents::draw(mode, scenario, every)
}

/// In some scenarios a round consists of many portions, which random workloads would else never fill.
fn portion_bytes(scenario: &Scenario) -> usize {
    let mut dice = Dice::new(random::stream(scenario.seed, &[6]));
    if dice.once_in(4) { dice.between(1, 64) as usize } else { ReplicationConfig::default().portion_bytes }
}

/// In some scenarios of techniques with directed replicas, rounds hold back what is not significant. Updates
/// of random workloads change values by anything.
fn significant(scenario: &Scenario) -> Option<f64> {
    let mut dice = Dice::new(random::stream(scenario.seed, &[11]));
    let may = !scenario.is_clocked() && dice.once_in(4);
    may.then(|| dice.pick(&[0.01, 0.3, 1.0]))
}

/// In some scenarios of techniques with directed replicas, elements travel as bfloat16. Not in those in which
/// a worker pushes a key so often that a rounded sum no longer says how often.
fn precision(scenario: &Scenario) -> Precision {
    let mut dice = Dice::new(random::stream(scenario.seed, &[12]));
    let directed = matches!(scenario.policy.replicas, Some(Replicas::Directed { .. }));
    let few = scenario.calls <= 70 * scenario.all_workers() as u64;
    let may = directed && few && !scenario.double && !scenario.huge;
    if may && dice.once_in(4) { Precision::Bf16 } else { Precision::Exact }
}

/// A stress variant: clocks advance with every call, most calls access the same key, and the staleness bound
/// is 0, so that holders drop replicas while they wait for a clock.
fn advance_with_every_call(mode: &Mode, scenario: &mut Scenario) {
    scenario.clock_once_in.fill(1);
    scenario.replication.staleness = 0;
    scenario.hot_keys = 1;
    scenario.call_keys_max = 3;
    scenario.delays.worker.max_ns = 1_000;
    scenario.stops.clear();
    scenario.bounds.clear();
    if mode.asynchronous.is_none() {
        scenario.in_flight_max = 3;
    }
}

/// Changes the number of nodes, and with it the length of values, which have a lane per worker.
fn set_nodes(scenario: &mut Scenario, nodes: usize) {
    let before = lanes::len_min(scenario.all_workers());
    if !scenario.faults.is_none() {
        let horizon_ns = scenario.faults.episodes().iter().map(|e| e.until_ns).max().unwrap_or(0);
        scenario.faults = intendant_sim::Faults::random(scenario.seed, nodes, horizon_ns);
    }
    scenario.nodes = nodes;
    let now = lanes::len_min(scenario.all_workers());
    scenario.lanes[0].1 = scenario.lanes[0].1 - before + now;
    scenario.lanes[1].1 = scenario.lanes[1].1 - 2 * before + 2 * now;
}

/// Draws the pace of synchronisation: from much more often than any other event to almost never.
fn every(scenario: &Scenario, dice: &mut Dice) -> Tick {
    let delays = &scenario.delays;
    let slowest =
        [delays.worker, delays.enqueue, delays.turn, delays.network.latency, delays.deliver, delays.intake];
    let slowest_ns = slowest.iter().map(|spread| spread.max_ns).max().unwrap_or(0);
    // During partitions, almost all events are rounds of synchronisation, so these must be rare enough.
    let faulty_ns = scenario.faults.episodes().iter().map(|e| e.until_ns).max().unwrap_or(0);
    let quarters = dice.pick(&[2, 4, 16, 64]);
    Tick((slowest_ns * quarters / 4_000).max(faulty_ns / 500_000).max(1))
}

/// Draws the keys with static replicas: few, some, or most of them.
fn assign(scenario: &Scenario, dice: &mut Dice) -> Assignment {
    if scenario.policy.static_replicas != Some(StaticReplicas::Assigned) {
        return Assignment::none();
    }
    let mut assignment = Assignment::none();
    let of_16 = dice.pick(&[1, 4, 8, 12]);
    for key in 0..scenario.registers().end {
        if dice.below(16) < of_16 {
            assignment.set_technique(Key(key), KeyTechnique::Replicate);
        }
    }
    assignment
}
