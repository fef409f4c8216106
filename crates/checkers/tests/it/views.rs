//! Runs with copies whose nodes are lost, join and leave. `cargo xtask verify` runs more seeds, and `--full`
//! many more.

use intendant_checkers::views;
use intendant_sim::reach::Reach;
use intendant_techniques::Technique;

const SEEDS: u64 = 240;

#[test]
fn training_goes_on_when_nodes_change() {
    let mut reach = Reach::default();
    for seed in 0..SEEDS {
        let technique = Technique::ALL[seed as usize % Technique::ALL.len()];
        let run = views::run(seed, technique);
        if let Err(failure) = &run.result {
            let name = technique.policy().name;
            panic!("cargo xtask sim --views --technique {name} --seeds {seed}..{}: {failure}", seed + 1);
        }
        reach.merge(&run.reach);
    }
    for (marker, runs) in views::expected() {
        assert!(runs <= SEEDS && reach.count(marker) > 0, "no run has reached {}", marker.name());
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 0..5 {
        let (one, other) = (views::run(seed, Technique::Adaptive), views::run(seed, Technique::Adaptive));
        assert_eq!((one.result, one.hash, one.events), (other.result, other.hash, other.events));
        assert_eq!(one.reach, other.reach);
    }
}
