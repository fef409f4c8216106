//! Workers against channels: the fast paths of workers pull, push, set, localize and update in place, while
//! channels move the same keys in and out, or synchronise copies of them (see [`replicas`]).
//!
//! The engine and the store have the shipped sources, compiled a second time onto shuttle's primitives. Every
//! use of a latch is a point where another thread may run. After each schedule, the values that workers saw
//! must be sequentially consistent per key, no work may be left over, and every key must be in one place.
//! Shuttle does not model weak memory orders; loom checks those of the latch (`intendant-store`,
//! `tests/loom.rs`).
//!
//! A failure prints its schedule; `shuttle::replay` repeats it. `INTENDANT_SCHEDULES` sets how many schedules
//! are tried per case and scheduler.

mod replicas;
mod worker;
mod world;

use intendant_checkers::history::History;
use intendant_checkers::lanes;
use intendant_checkers::registers::Registers;
use intendant_core::{Key, Tick};
use intendant_engine::{ManagementStats, Storage};
use intendant_techniques::{Initiator, Order, Policy, Replicas, Technique};
use replicas::ReplicaWorker;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use std::sync::{Arc, Mutex};
use worker::{Book, Reach, Worker};
use world::{LANES, REGISTER, Setup, World};

/// Schedules per case and scheduler: as many as take a second or two. `nightly.yml` tries twenty times as
/// many.
const SCHEDULES: usize = 1_500;
/// Preemptions that PCT places, plus one.
const DEPTH: usize = 4;
const SEED: u64 = 1;

fn lapse(order: Order, caches: bool) -> Policy {
    Technique::Lapse.policy().with(Some(order), Some(caches))
}

/// Runs one schedule, from the start to the checks.
fn run(setup: Setup, reached: &Mutex<(Reach, ManagementStats)>) {
    let (world, channels, deliveries) = World::start(setup);
    let book = Book { history: History::new(setup.workers()), registers: Registers::default() };
    let book = Arc::new(Mutex::new(book));
    let workers: Vec<_> = deliveries
        .into_iter()
        .enumerate()
        .map(|(me, deliveries)| {
            let worker = Worker::new(me, Arc::clone(&world), Arc::clone(&book), deliveries);
            thread::spawn(move || worker.run())
        })
        .collect();
    let reaches: Vec<Reach> = workers.into_iter().map(|w| w.join().expect("the worker ends")).collect();
    let stats = world.finish(channels);
    let mut book = book.lock().expect("all threads have ended");
    for key in (0..LANES).map(Key) {
        let Some(value) = world.value(key) else { continue };
        let mut lanes = vec![0; setup.workers()];
        lanes::read(key, &value, &mut lanes).unwrap_or_else(|error| panic!("{error}"));
        book.history.ended(key, &lanes);
    }
    book.history.check().unwrap_or_else(|error| panic!("{error}"));
    let register = world.value(REGISTER).expect("it is at home or somewhere else");
    book.registers.ended(REGISTER, &register).unwrap_or_else(|error| panic!("{error}"));
    book.registers.check().unwrap_or_else(|error| panic!("{error}"));
    let (sum, management) = &mut *reached.lock().expect("no thread panics");
    management.merge(&stats);
    for reach in reaches {
        sum.local += reach.local;
        sum.remote += reach.remote;
        sum.windows += reach.windows;
        sum.came_meanwhile += reach.came_meanwhile;
        sum.hits += reach.hits;
        sum.misses += reach.misses;
        sum.localized_at_once += reach.localized_at_once;
        sum.lent += reach.lent;
        sum.not_lent += reach.not_lent;
    }
}

/// Tries schedules, with two schedulers.
fn try_all(body: impl Fn() + Clone + Send + Sync + 'static) {
    let schedules = std::env::var("INTENDANT_SCHEDULES").ok().and_then(|text| text.parse().ok());
    let schedules = schedules.unwrap_or(SCHEDULES);
    Runner::new(RandomScheduler::new_from_seed(SEED, schedules), Config::new()).run(body.clone());
    Runner::new(PctScheduler::new_from_seed(SEED, DEPTH, schedules), Config::new()).run(body);
}

fn explore(setup: Setup) {
    let reached = Arc::new(Mutex::new((Reach::default(), ManagementStats::default())));
    let sink = Arc::clone(&reached);
    try_all(move || run(setup, &sink));
    let (reach, management) = reached.lock().expect("no thread panics").clone();
    let Reach { local, remote, windows, came_meanwhile, hits, misses, localized_at_once, lent, not_lent } =
        reach;
    let mut expected = vec![
        ("served by a worker itself", local),
        ("handed to a channel", remote),
        ("here by the time it was handed to a channel", came_meanwhile),
        ("pulled because it was here", hits),
        ("left alone because it was not here", misses),
        ("changed in place", lent),
        ("to be changed in place, and could not be", not_lent),
        ("relocated", management.relocations),
    ];
    if setup.windows {
        expected.push(("read in a window", windows));
    }
    if setup.nodes > 2 {
        expected.push(("looked for where it was not", management.forwards[1..].iter().sum()));
    }
    if setup.policy.relocation == Some(Initiator::Requester) {
        expected.extend([
            ("here when a worker wanted it here", localized_at_once),
            ("wanted by two nodes at once", management.localization_conflicts),
            ("waited for", management.queued),
        ]);
    }
    for (name, count) in expected {
        assert!(count > 0, "in no schedule of {setup:?} a key was {name}");
    }
}

const SMALL: Setup = Setup {
    nodes: 2,
    workers_per_node: 2,
    channels: 1,
    storage: Storage::Dense,
    policy: Technique::Lapse.policy(),
    windows: false,
    asynchronous: true,
    calls: 6,
};

#[test]
fn asynchronous_without_caches() {
    explore(SMALL);
}

#[test]
fn asynchronous_with_windows() {
    explore(Setup { windows: true, ..SMALL });
}

#[test]
fn synchronous_with_windows() {
    explore(Setup { windows: true, asynchronous: false, channels: 2, ..SMALL });
}

#[test]
fn asynchronous_with_caches() {
    explore(Setup { policy: lapse(Order::Chain, true), nodes: 3, workers_per_node: 1, ..SMALL });
}

#[test]
fn synchronous_with_caches() {
    explore(Setup { policy: lapse(Order::Fifo, true), asynchronous: false, channels: 2, ..SMALL });
}

#[test]
fn sparse() {
    explore(Setup { storage: Storage::Sparse, nodes: 3, ..SMALL });
}

#[test]
fn moved_by_owners() {
    let policy = Policy { relocation: Some(Initiator::Owner), ..lapse(Order::Chain, false) };
    explore(Setup { policy, nodes: 3, ..SMALL });
}

/// A program of a worker over copies.
type Program = fn(ReplicaWorker) -> replicas::Log;

/// Runs one schedule over copies.
fn run_replicas(setup: Setup, program: Program, reached: &Mutex<(replicas::Reach, ManagementStats)>) {
    let (world, channels, deliveries) = World::start(setup);
    let workers = deliveries.into_iter().enumerate().map(|(me, deliveries)| {
        let worker = ReplicaWorker::new(me, Arc::clone(&world), deliveries);
        thread::spawn(move || program(worker))
    });
    let workers: Vec<_> = workers.collect();
    let logs: Vec<_> = workers.into_iter().map(|w| w.join().expect("the worker ends")).collect();
    world.come_to_rest();
    let urgent = world.urgent().len() as u64;
    let stats = world.finish(channels);
    replicas::check(&setup, &world, &logs);
    let (sum, management) = &mut *reached.lock().expect("no thread panics");
    management.merge(&stats);
    sum.urgent += urgent;
    for replicas::Log { reach, .. } in logs {
        sum.on_hub += reach.on_hub;
        sum.on_replica += reach.on_replica;
        sum.on_static += reach.on_static;
        sum.deferred += reach.deferred;
        sum.lent += reach.lent;
    }
}

fn explore_replicas(setup: Setup) -> (replicas::Reach, ManagementStats) {
    explore_program(setup, ReplicaWorker::run)
}

fn explore_program(setup: Setup, program: Program) -> (replicas::Reach, ManagementStats) {
    let reached = Arc::new(Mutex::new((replicas::Reach::default(), ManagementStats::default())));
    let sink = Arc::clone(&reached);
    try_all(move || run_replicas(setup, program, &sink));
    let reached = reached.lock().expect("no thread panics").clone();
    let copied = setup.policy.name != Technique::RelocateOnIntent.policy().name;
    // With intents, a node sends updates when an intent ends, which may be before the first round.
    assert!(reached.0.lent > 0, "{reached:?}");
    let in_step = reached.1.synced_keys > 0 && (reached.1.sync_rounds > 0 || setup.policy.intents.is_some());
    assert!(in_step == copied, "{reached:?}");
    reached
}

#[test]
fn replicas_as_directed() {
    let replicas = Some(Replicas::Directed { every: Tick(20) });
    let policy = Policy { relocation: Some(Initiator::Owner), replicas, ..lapse(Order::Chain, true) };
    let (reach, management) = explore_replicas(Setup { policy, calls: 8, ..SMALL });
    assert!(reach.on_hub > 0 && reach.on_replica > 0 && reach.deferred > 0, "{reach:?}");
    let ManagementStats { relocations, replica_setups, replica_drops, .. } = management;
    assert!(relocations > 0 && replica_setups > 0 && replica_drops > 0, "{management:?}");
}

/// Channels send updates only because of the list of urgent replicas: there is one round, at the first look.
#[test]
fn urgent_replicas() {
    let replicas = Some(Replicas::Directed { every: Tick(1 << 40) });
    let policy = Policy { relocation: Some(Initiator::Owner), replicas, ..lapse(Order::Chain, true) };
    let (reach, management) =
        explore_program(Setup { policy, calls: 10, ..SMALL }, ReplicaWorker::run_urgent);
    assert!(reach.urgent > 0 && reach.on_replica > 0 && reach.lent > 0, "{reach:?}");
    assert!(management.drift.count() > 0, "{management:?}");
}

#[test]
fn replicas_and_moves_by_intent() {
    for technique in [Technique::Adaptive, Technique::RelocateOnIntent] {
        let policy = technique.policy();
        let (reach, management) = explore_replicas(Setup { policy, calls: 8, ..SMALL });
        assert!(reach.deferred > 0 && management.relocations > 0 && management.intents > 0, "{management:?}");
        let replicas = [reach.on_hub, reach.on_replica, management.replica_setups, management.replica_drops];
        assert!(replicas.iter().all(|count| (*count > 0) == (technique == Technique::Adaptive)), "{reach:?}");
    }
}

#[test]
fn replicas_on_first_read() {
    for technique in [Technique::Ssp, Technique::Essp] {
        let (reach, management) = explore_replicas(Setup { policy: technique.policy(), calls: 8, ..SMALL });
        assert!(reach.on_hub > 0 && reach.on_replica > 0 && reach.deferred > 0, "{reach:?}");
        assert!(management.replica_setups > 0 && management.stale_reads > 0, "{management:?}");
    }
}

#[test]
fn static_replicas() {
    for nodes in [2, 3] {
        let policy = Technique::FullReplication.policy();
        let (reach, _) = explore_replicas(Setup { policy, nodes, workers_per_node: 4 - nodes, ..SMALL });
        assert!(reach.on_static > 0 && reach.deferred == 0, "{reach:?}");
    }
}
