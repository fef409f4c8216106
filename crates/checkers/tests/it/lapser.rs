//! Random runs of Lapser: all checks, what a set of runs reaches, and determinism. `cargo xtask sim` runs
//! more.

use intendant_checkers::lapser::{self, Mode};
use intendant_lapser::Variant;
use intendant_sim::reach::{Marker, Reach};

/// Runs of each set.
const SEEDS: u64 = 250;

#[test]
fn every_variant_passes_its_checks_and_reaches_what_it_must() {
    for variant in [Variant::Push, Variant::PushBySlack, Variant::Pull] {
        let mode = Mode { variant: Some(variant), ..Mode::default() };
        let mut reach = Reach::default();
        for seed in 0..SEEDS {
            let run = lapser::run(&mode, seed, false);
            assert_eq!(run.result, Ok(()), "cargo xtask sim {mode} --seeds {seed}..{} --trace", seed + 1);
            reach.merge(&run.reach);
        }
        for (marker, runs) in mode.expected() {
            let name = marker.name();
            assert!(runs > SEEDS || reach.count(marker) > 0, "{mode} does not reach {name} in {SEEDS} runs");
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let mut hashes = Vec::new();
    for seed in 0..60 {
        let mode = Mode::default();
        let (a, b) = (lapser::run(&mode, seed, false), lapser::run(&mode, seed, true));
        assert_eq!((a.hash, a.events, a.virtual_ns), (b.hash, b.events, b.virtual_ns), "seed {seed}");
        assert!(a.trace.is_empty() && !b.trace.is_empty());
        hashes.push(a.hash);
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 60);
}

/// The mode's nodes, calls, slack and faults: as many nodes end, and none is lost.
#[test]
fn fixed_settings_are_kept() {
    for (slack, nodes) in [(0, 2), (4, 9)] {
        let mode = Mode {
            variant: Some(Variant::Pull),
            nodes: Some(nodes),
            calls: 60,
            slack: Some(slack),
            faults: Some(false),
        };
        for seed in 0..20 {
            let run = lapser::run(&mode, seed, true);
            assert_eq!(run.result, Ok(()));
            let ended = run.trace.iter().filter(|line| line.ends_with("releases its segment")).count();
            assert_eq!(ended, nodes, "seed {seed}");
            assert_eq!(run.reach.count(Marker::ProducerLost), 0);
            let slacks =
                run.trace.iter().filter_map(|line| line.split_once("Get {")?.1.split_once(", slack: "));
            let expected = slack.to_string();
            for (call, found) in slacks {
                assert_eq!(found.split(' ').next(), Some(expected.as_str()), "seed {seed}: {call}");
            }
        }
    }
}
