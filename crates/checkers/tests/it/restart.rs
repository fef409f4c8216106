//! Runs that crash and start again. `cargo xtask verify` runs more seeds, and `--full` many more.

use intendant_checkers::restart;
use intendant_sim::reach::Reach;

const SEEDS: u64 = 60;

#[test]
fn training_that_crashes_goes_on_from_its_newest_checkpoint() {
    let mut reach = Reach::default();
    for seed in 0..SEEDS {
        let run = restart::run(seed);
        if let Err(failure) = &run.result {
            panic!("cargo xtask sim --restarts --seeds {seed}..{}: {failure}", seed + 1);
        }
        reach.merge(&run.reach);
    }
    for (marker, runs) in restart::expected() {
        assert!(runs <= SEEDS && reach.count(marker) > 0, "no run has reached {}", marker.name());
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 0..5 {
        let (one, other) = (restart::run(seed), restart::run(seed));
        assert_eq!((one.result, one.hash, one.events), (other.result, other.hash, other.events));
        assert_eq!(one.reach, other.reach);
    }
}
