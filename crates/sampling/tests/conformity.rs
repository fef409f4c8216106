//! Independent sampling: exact replay first, χ² after.

use intendant_core::{Key, random};
use intendant_sampling::{Conformity, Distribution, DistributionError, SampleError, Sampler};

fn keys(sampler: &Sampler, id: intendant_sampling::DistributionId, n: usize, stream: u64) -> Vec<Key> {
    let (mut handle, mut keys) = (sampler.prepare(id, n, stream).unwrap(), Vec::new());
    sampler.draw(&mut handle, n, &mut keys).unwrap();
    keys
}

/// Upper χ² quantile by Wilson and Hilferty; z = 4.75 is a tail of 1e-6, so that a fixed seed fails only for a reason.
fn chi_square_limit(freedom: f64) -> f64 {
    let (z, a) = (4.75, 2.0 / (9.0 * freedom));
    freedom * (1.0 - a + z * a.sqrt()).powi(3)
}

fn chi_square(counts: &[u64], probabilities: &[f64]) -> f64 {
    let n: u64 = counts.iter().sum();
    counts
        .iter()
        .zip(probabilities)
        .filter(|(_, p)| **p > 0.0)
        .map(|(c, p)| (*c as f64 - n as f64 * p).powi(2) / (n as f64 * p))
        .sum()
}

#[test]
fn equal_streams_replay_exactly_and_portions_do_not_matter() {
    let mut builder = Sampler::builder();
    let id =
        builder.register(Distribution::weighted(Key(10), &[1.0, 2.0, 3.0]).unwrap(), Conformity::Conform);
    let sampler = builder.build();
    let whole = keys(&sampler, id, 100, 7);
    assert_eq!(whole, keys(&sampler, id, 100, 7));
    assert_ne!(whole, keys(&sampler, id, 100, 8));
    let (mut handle, mut parts) = (sampler.prepare(id, 100, 7).unwrap(), Vec::new());
    assert_eq!(handle.ahead().collect::<Vec<_>>(), whole);
    for n in [1, 0, 59, 40] {
        sampler.draw(&mut handle, n, &mut parts).unwrap();
    }
    assert_eq!(whole, parts);
    assert_eq!(
        sampler.draw(&mut handle, 1, &mut parts),
        Err(SampleError::HandleExhausted { wanted: 1, left: 0 })
    );
}

#[test]
fn frequencies_follow_the_distribution() {
    let weights: Vec<f64> =
        (0..200).map(|i| if i % 17 == 0 { 0.0 } else { 1.0 / f64::from(i + 1) }).collect();
    let total: f64 = weights.iter().sum();
    let weighted: Vec<f64> = weights.iter().map(|w| w / total).collect();
    let mut builder = Sampler::builder();
    let ids = [
        builder.register(Distribution::uniform(5..205).unwrap(), Conformity::Conform),
        builder.register(Distribution::weighted(Key(5), &weights).unwrap(), Conformity::Conform),
    ];
    let sampler = builder.build();
    for (id, probabilities) in ids.into_iter().zip([vec![1.0 / 200.0; 200], weighted]) {
        // Many short streams, as training uses them: a flaw in seeding would show here and not in one long stream.
        let mut counts = vec![0u64; 200];
        for stream in 0..40_000 {
            for key in keys(&sampler, id, 5, random::stream(3, &[stream])) {
                counts[key.index() - 5] += 1;
            }
        }
        let freedom = probabilities.iter().filter(|p| **p > 0.0).count() as f64 - 1.0;
        let (chi, limit) = (chi_square(&counts, &probabilities), chi_square_limit(freedom));
        assert!(chi < limit, "χ² = {chi:.1} exceeds {limit:.1}");
        assert!(
            counts.iter().zip(&probabilities).all(|(c, p)| *p > 0.0 || *c == 0),
            "a key of weight 0 was drawn"
        );
        // The check can fail: uniform counts against shifted probabilities do.
        let mut shifted = probabilities.clone();
        shifted.rotate_right(1);
        if probabilities[1] != probabilities[2] {
            assert!(chi_square(&counts, &shifted) > limit);
        }
    }
}

#[test]
fn bad_weights_are_named() {
    let refused = |w: &[f64]| Distribution::weighted(Key(0), w).unwrap_err();
    assert_eq!(refused(&[]), DistributionError::Empty);
    assert_eq!(refused(&[1.0, -2.0]), DistributionError::Weight { position: 1, weight: -2.0 });
    assert!(matches!(refused(&[f64::NAN]), DistributionError::Weight { position: 0, .. }));
    assert_eq!(refused(&[0.0, 0.0]), DistributionError::AllZero { keys: 2 });
    assert!(Distribution::weighted(Key(0), &[f64::MAX, f64::MAX]).is_ok());
    assert_eq!(Distribution::uniform(3..3).unwrap_err(), DistributionError::Empty);
}
