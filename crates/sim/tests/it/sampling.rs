//! Tests of every sampling scheme with every technique in virtual time: training sees the same examples and
//! the same number of samples, the model learns, and each scheme reduces what it is designed to reduce.

use crate::likes::Likes;
use intendant_checkers::checker::run_task;
use intendant_engine::ClusterSettings;
use intendant_sampling::{Sampler, Scheme};
use intendant_sim::{TaskConfig, TaskOutcome};
use intendant_task::{Schedule, Task};
use intendant_techniques::Technique;
use std::sync::Arc;

const EPOCHS: u32 = 6;

fn sampler(scheme: Scheme) -> Sampler {
    Likes::<f32>::new(5).model().sampler.with(scheme.offers(), Some(scheme)).unwrap()
}

fn config(technique: Technique, scheme: Scheme) -> TaskConfig {
    let sampler = sampler(scheme);
    let localize_ahead = if technique == Technique::Lapse { 2 } else { 0 };
    let sample_portions = sampler.portions();
    let schedule = Schedule { localize_ahead, sample_portions, ..Schedule::epochs(EPOCHS) };
    TaskConfig {
        cluster: ClusterSettings::new(technique),
        sampler: Some(sampler),
        ..TaskConfig::new(3, 2, schedule)
    }
}

fn train(config: &TaskConfig) -> TaskOutcome<f32> {
    run_task(&Arc::new(Likes::<f32>::new(5)), config, &mut ()).unwrap()
}

fn trained(outcome: &TaskOutcome<f32>) -> (u64, u64) {
    let digest = outcome.combined.iter().fold(0u64, |sum, reduction| sum.wrapping_add(reduction.digest));
    (digest, outcome.accesses.sampled)
}

#[test]
fn every_scheme_serves_every_technique() {
    let expected = trained(&train(&config(Technique::Classic, Scheme::Independent)));
    for technique in Technique::ALL {
        for scheme in Scheme::ALL {
            let name = format!("{technique}, {scheme}");
            let config = config(technique, scheme);
            let outcome = train(&config);
            assert_eq!(trained(&outcome), expected, "{name}: the same examples, as many samples");
            let drawn: u64 = outcome.epochs.iter().map(|epoch| epoch.sampling.drawn).sum();
            assert_eq!(drawn, expected.1, "{name}");
            let pools: u64 = outcome.epochs.iter().map(|epoch| epoch.sampling.pools).sum();
            assert_eq!(pools > 0, scheme.pooling().is_some(), "{name}");
            let [first, .., last, _] = &outcome.combined[..] else { panic!("{name}: too few epochs") };
            let loss = |r: &intendant_task::Reduction| r.get("loss") / r.get("examples");
            assert!(loss(last) < 0.8 * loss(first), "{name}: loss {} to {}", loss(first), loss(last));
            assert_eq!(train(&config).hash, outcome.hash, "{name}: equal seeds give equal runs");
        }
    }
}

/// Local sampling draws keys that are local, so fewer accesses are remote.
#[test]
fn local_samples_are_local() {
    let remote = |scheme| {
        let outcome = train(&config(Technique::Lapse, scheme));
        outcome.epochs.iter().map(|epoch| epoch.accesses.remote).sum::<u64>() as f64
    };
    let (independent, local) = (remote(Scheme::Independent), remote(Scheme::Local));
    assert!(local < 0.8 * independent, "{local} and {independent}");
}

/// Postponing relocates most samples that are remote at first, so that few are read remotely.
#[test]
fn samples_are_postponed_until_they_are_local() {
    let outcome = train(&config(Technique::Lapse, Scheme::ALL[2]));
    let postponed: u64 = outcome.epochs.iter().map(|epoch| epoch.sampling.postponed).sum();
    let strayed: u64 = outcome.epochs.iter().map(|epoch| epoch.sampling.strayed).sum();
    let drawn: u64 = outcome.epochs.iter().map(|epoch| epoch.sampling.drawn).sum();
    assert!(0 < strayed && strayed < postponed && postponed < drawn, "{strayed}, {postponed}, {drawn}");
}
