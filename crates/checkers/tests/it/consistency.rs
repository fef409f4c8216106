//! A few hundred seeds of every mode; `cargo xtask sim` runs any number of seeds.

use intendant_checkers::workload::{self, Mode};
use intendant_engine::Storage;
use intendant_sim::reach::{Marker, Reach};
use intendant_techniques::{Order, Technique};

const CLASSIC: Mode = Mode::new(Technique::Classic);
const LAPSE: Mode = Mode::new(Technique::Lapse);
const BY_OWNERS: Mode = Mode { by_owners: true, ..LAPSE };
const HUB: Mode = Mode::hub();
const SSP: Mode = Mode::new(Technique::Ssp);
const ESSP: Mode = Mode::new(Technique::Essp);
const NUPS: Mode = Mode::new(Technique::Nups);
const FULL: Mode = Mode::new(Technique::FullReplication);

/// The modes with several copies of a key.
const COPIES: [Mode; 5] = [HUB, SSP, ESSP, NUPS, FULL];

fn all_consistent(mode: &Mode, seeds: std::ops::Range<u64>) -> Reach {
    let mut reach = Reach::default();
    for seed in seeds.clone() {
        let run = workload::run(mode, seed, false);
        if let Err(failure) = run.result {
            panic!("cargo xtask sim {mode} --seeds {seed}..{} --trace\n{failure}", seed + 1);
        }
        reach.merge(&run.reach);
    }
    let runs = seeds.end - seeds.start;
    for (marker, enough) in mode.expected() {
        assert!(
            runs < enough || reach.count(marker) > 0,
            "{runs} runs of {mode} never reached {}",
            marker.name()
        );
    }
    reach
}

#[test]
fn classic_is_consistent_in_every_mode() {
    for asynchronous in [false, true] {
        for order in [Order::Fifo, Order::Chain] {
            let mode = Mode { asynchronous: Some(asynchronous), order: Some(order), ..CLASSIC };
            let reach = all_consistent(&mode, 0..200);
            assert_eq!(reach.count(Marker::AsyncOverlap) > 0, asynchronous, "{mode}");
            assert_eq!(reach.count(Marker::Chained) > 0, order == Order::Chain, "{mode}");
            assert_eq!(reach.count(Marker::Relocated), 0, "{mode}");
        }
    }
}

#[test]
fn classic_is_consistent_with_either_store_with_and_without_caches() {
    for storage in [Storage::Dense, Storage::Sparse] {
        for caches in [false, true] {
            let mode = Mode { storage: Some(storage), caches: Some(caches), ..CLASSIC };
            let reach = all_consistent(&mode, 1_000..1_150);
            assert_eq!(reach.count(Marker::ForwardedOnce) > 0, caches, "{mode}");
            assert_eq!(reach.count(Marker::SparseMaterialised) > 0, storage == Storage::Sparse, "{mode}");
        }
    }
}

/// [thesis theorems 1 and 2]
#[test]
fn lapse_is_consistent_if_workers_wait_or_nodes_do_not_remember_locations() {
    for (asynchronous, caches) in [(false, false), (false, true), (true, false)] {
        let mode = Mode {
            asynchronous: Some(asynchronous),
            caches: Some(caches),
            order: Some(Order::Fifo),
            ..LAPSE
        };
        let reach = all_consistent(&mode, 0..300);
        assert_eq!(reach.count(Marker::ForwardedAgain) > 0, caches, "{mode}");
    }
}

#[test]
fn chained_operations_are_consistent_with_caches() {
    let mode = Mode { asynchronous: Some(true), caches: Some(true), order: Some(Order::Chain), ..LAPSE };
    all_consistent(&mode, 0..300);
}

/// [thesis theorem 3]: with caches, a worker's operations on a key may overtake each other; no update is
/// lost.
#[test]
fn unchained_operations_are_only_eventually_consistent_with_caches() {
    let mode = Mode { asynchronous: Some(true), caches: Some(true), order: Some(Order::Fifo), ..LAPSE };
    let mut inconsistent = 0;
    for seed in 0..300 {
        if let Err(failure) = workload::run(&mode, seed, false).result {
            assert!(failure.is_of_order(), "{mode} --seeds {seed}..{}: {failure}", seed + 1);
            inconsistent += 1;
        }
    }
    assert!(inconsistent > 10, "{inconsistent} of 300");
}

#[test]
fn keys_that_owners_move_are_consistent() {
    for asynchronous in [false, true] {
        let mode = Mode { asynchronous: Some(asynchronous), ..BY_OWNERS };
        let reach = all_consistent(&mode, 0..200);
        assert_eq!(reach.count(Marker::Queued), 0, "no node waits for keys that it did not request");
    }
}

#[test]
fn clusters_with_faults_are_consistent() {
    for mode in [CLASSIC, LAPSE, BY_OWNERS].into_iter().chain(COPIES) {
        let mode = Mode { faults: Some(true), ..mode };
        let reach = all_consistent(&mode, 5_000..5_100);
        assert_eq!(reach.count(Marker::Faulty), 100);
    }
}

#[test]
fn clusters_of_any_size_are_consistent() {
    for nodes in [1, 2, 3, 7] {
        for mode in [CLASSIC, LAPSE, BY_OWNERS].into_iter().chain(COPIES) {
            all_consistent(&Mode { nodes: Some(nodes), ..mode }, 2_000..2_060);
        }
    }
}

#[test]
fn long_runs_are_consistent() {
    for mode in [CLASSIC, LAPSE, BY_OWNERS].into_iter().chain(COPIES) {
        all_consistent(&Mode { calls: 10_000, ..mode }, 0..3);
    }
}

/// Each technique uses its own mechanisms and no others.
#[test]
fn techniques_with_copies_use_their_own_mechanisms() {
    for mode in COPIES {
        let reach = all_consistent(&mode, 0..300);
        let reached = |marker| reach.count(marker) > 0;
        let static_replicas = mode == NUPS || mode == FULL;
        assert_eq!(reached(Marker::ReplicaSetUp), !static_replicas, "{mode}");
        assert_eq!(reached(Marker::Agreed), static_replicas, "{mode}");
        assert_eq!(reached(Marker::Relocated), mode == NUPS || mode == HUB, "{mode}");
        assert_eq!(reached(Marker::ParkedRead), mode == SSP || mode == ESSP, "{mode}");
        assert_eq!(reached(Marker::RemoteServed), mode != FULL, "{mode}");
    }
}

#[test]
fn staleness_is_bounded_for_every_bound() {
    for mode in [SSP, ESSP] {
        for staleness in [0, 1, 5] {
            all_consistent(&Mode { staleness: Some(staleness), ..mode }, 3_000..3_100);
        }
    }
}

#[test]
fn synchronisation_makes_all_pushes_visible() {
    for mode in [NUPS, FULL] {
        for asked in [false, true] {
            let reach = all_consistent(&Mode { asked: Some(asked), ..mode }, 4_000..4_150);
            assert_eq!(reach.count(Marker::RoundCalled) > 0, !asked, "{mode}");
        }
    }
}

#[test]
fn techniques_without_copies_use_no_replicas() {
    for mode in [CLASSIC, LAPSE, BY_OWNERS] {
        let reach = all_consistent(&mode, 6_000..6_050);
        for marker in [Marker::ReplicaSetUp, Marker::Agreed, Marker::Synchronized, Marker::EagerNews] {
            assert_eq!(reach.count(marker), 0, "{mode} reached {}", marker.name());
        }
    }
}
