//! Determinism: a seed always gives the same events in the same order.

use intendant_checkers::workload::{self, Mode};
use intendant_techniques::Technique;

#[test]
fn the_same_seed_is_the_same_run() {
    let classic = Mode::new(Technique::Classic);
    let lapse = Mode::new(Technique::Lapse);
    let by_owners = Mode { by_owners: true, ..lapse };
    let copies =
        [Technique::Ssp, Technique::Essp, Technique::Nups, Technique::FullReplication].map(Mode::new);
    let modes = [classic, lapse, by_owners, Mode::hub()].into_iter().chain(copies);
    for (seed, mode) in (0..160).zip(modes.cycle()) {
        let (a, b) = (workload::run(&mode, seed, false), workload::run(&mode, seed, true));
        assert_eq!((a.hash, a.events, a.virtual_ns), (b.hash, b.events, b.virtual_ns), "seed {seed}");
        assert!(
            a.trace.is_empty() && b.trace.len() > 100,
            "a trace is only kept on demand, and changes nothing"
        );
    }
}

#[test]
fn different_seeds_are_different_runs() {
    let mode = Mode::new(Technique::Classic);
    let mut hashes: Vec<u64> = (0..200).map(|seed| workload::run(&mode, seed, false).hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 200);
}
