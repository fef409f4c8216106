//! Random runs: nodes set up and drop replicas and hand keys over, while workers pull, push and set.

use super::super::cluster::{Cluster, Seed, Setup};
use super::{is_complete, seeds};
use intendant_core::{Key, NodeId, Precision, Tick};
use intendant_engine::{Input, ManagementStats, ReplicationConfig, Storage};
use intendant_techniques::{Initiator, Location, Order, Policy, Replicas};
use std::collections::BTreeMap;

pub(crate) fn policy(caches: bool) -> Policy {
    Policy {
        name: "test",
        order: Order::Chain,
        relocation: Some(Initiator::Owner),
        location: Location::Home { caches },
        replicas: Some(Replicas::Directed { every: Tick(100) }),
        static_replicas: None,
        intents: None,
    }
}

/// Number of keys that workers set at times. They never set the other keys.
const REGISTERS: u64 = 1;

/// What all runs have reached.
#[derive(Default)]
struct Totals {
    counts: BTreeMap<&'static str, u64>,
    stats: ManagementStats,
}

fn run(seed: u64, steps: usize, precision: Precision, totals: &mut Totals) {
    let _seed = Seed(seed);
    let setup = Setup {
        nodes: 3 + seed as usize % 3,
        workers: 1 + seed as usize / 3 % 2,
        channels: 2,
        keys: 4,
        storage: if seed.is_multiple_of(2) { Storage::Dense } else { Storage::Sparse },
        policy: policy(!seed.is_multiple_of(4)),
        replication: ReplicationConfig { precision, ..ReplicationConfig::default() },
    };
    let (nodes, keys) = (setup.nodes, setup.keys);
    let mut c = Cluster::new(setup, seed);
    let moving = [2, 6, 12][c.dice.below(3)];
    let directing = [3, 8, 15][c.dice.below(3)];
    for step in 0..steps {
        if step % 60 == 0 {
            c.shift();
        }
        let key = Key(c.dice.below(keys as usize) as u64);
        let node = c.dice.below(nodes);
        let (place, keys) = (c.place(node, key), vec![key]);
        if c.dice.percent(moving) {
            let to = NodeId(c.dice.below(nodes) as u16);
            // Mostly at the owner; other nodes ignore the input.
            let owner = (0..nodes).find(|node| c.role(*node, key).is_owner()).unwrap_or(node);
            let place = if c.dice.percent(80) { c.place(owner, key) } else { place };
            c.handle(place, Input::Relocate { keys, to });
        } else if c.dice.percent(directing) {
            let input =
                if c.dice.percent(60) { Input::Replicate { keys } } else { Input::Unreplicate { keys } };
            c.handle(place, input);
        } else if c.dice.percent(10) {
            c.tick();
        } else if c.dice.percent(35) {
            act(&mut c, key);
        } else {
            c.deliver_any();
        }
        let me = c.dice.below(c.workers.len());
        c.receive(me);
    }
    c.drain();
    // Quiescence takes at least two waves.
    if c.quiesce(60) > 2 {
        c.watch.count("not quiescent at first");
    }
    c.check_end();
    for (name, count) in &c.watch.counts {
        *totals.counts.entry(name).or_insert(0) += count;
    }
    totals.stats.merge(&c.stats());
}

/// Lets a worker start an operation, if it has few under way.
fn act(c: &mut Cluster, key: Key) {
    let me = c.dice.below(c.workers.len());
    if c.workers[me].ahead() >= 4 {
        return;
    }
    match c.dice.below(10) {
        0..3 => {
            let other = Key(c.dice.below(c.setup.keys as usize) as u64);
            c.pull(me, &[key, other]);
        }
        3 => {
            c.pull_if_local(me, key);
        }
        4 if key.0 < REGISTERS => c.set(me, key),
        _ => c.push(me, key),
    }
}

/// Cases that must occur in a whole set of runs.
const REACHED: [&str; 21] = [
    "acknowledged with a value",
    "acknowledged without a value",
    "ask reached its sender",
    "ask with another generation",
    "drop without a registration",
    "request forwarded",
    "ghost returned to its holder",
    "ghost reached another owner",
    "handed over with holders",
    "not quiescent at first",
    "promoted while closed",
    "promoted with unsent updates",
    "promoted, delta in flight merged",
    "promoted, delta in flight not merged",
    "promoted without a registration",
    "refreshed before set-up",
    "revived",
    "late dropped",
    "refreshed before the answer",
    "updated since the drop",
    "late set-up",
];

/// Runs `count` seeds, and checks what they reach together.
fn run_all(count: u64, precision: Precision) {
    let mut totals = Totals::default();
    for seed in seeds(count) {
        run(seed, 400, precision, &mut totals);
    }
    let Totals { counts, stats } = totals;
    for name in REACHED {
        assert!(!is_complete() || counts.contains_key(name), "no run had the case '{name}'; {counts:#?}");
    }
    let ManagementStats { relocations, replica_setups, replica_drops, sync_rounds, .. } = stats;
    let least = 5 * count / 2;
    assert!(
        !is_complete()
            || [relocations, replica_setups, replica_drops, sync_rounds].iter().all(|n| *n > least)
    );
}

#[test]
fn random_runs() {
    run_all(2_000, Precision::Exact);
}

/// The tags and the numbers of pushes are so small that bfloat16 has them; the fractions are rounded.
#[test]
fn random_runs_with_rounded_elements() {
    run_all(1_000, Precision::Bf16);
}
