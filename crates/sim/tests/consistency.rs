//! A few hundred seeds of every mode; `cargo xtask sim` runs as many as wanted.

use intendant_engine::Storage;
use intendant_sim::reach::{Marker, Reach};
use intendant_sim::workload::{self, Mode};
use intendant_techniques::{Order, Technique};

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
            let mode = Mode {
                asynchronous: Some(asynchronous),
                order: Some(order),
                ..Mode::new(Technique::Classic)
            };
            let reach = all_consistent(&mode, 0..300);
            assert_eq!(reach.count(Marker::AsyncOverlap) > 0, asynchronous, "{mode}");
            assert_eq!(reach.count(Marker::Chained) > 0, order == Order::Chain, "{mode}");
        }
    }
}

#[test]
fn classic_is_consistent_with_either_store_with_and_without_caches() {
    for storage in [Storage::Dense, Storage::Sparse] {
        for caches in [false, true] {
            let mode = Mode { storage: Some(storage), caches: Some(caches), ..Mode::new(Technique::Classic) };
            let reach = all_consistent(&mode, 1_000..1_150);
            assert_eq!(reach.count(Marker::ForwardedOnce) > 0, caches, "{mode}");
            assert_eq!(reach.count(Marker::SparseMaterialised) > 0, storage == Storage::Sparse, "{mode}");
        }
    }
}

#[test]
fn clusters_of_any_size_are_consistent() {
    for nodes in [1, 2, 3, 7] {
        let mode = Mode { nodes, ..Mode::new(Technique::Classic) };
        all_consistent(&mode, 2_000..2_100);
    }
}

#[test]
fn a_long_run_is_consistent() {
    let mode = Mode { calls: 20_000, ..Mode::new(Technique::Classic) };
    all_consistent(&mode, 0..3);
}
