//! Common parts of the tests of sampling: nodes with keys here and elsewhere, and tests of fit.

use intendant_core::{Key, Tick};
use intendant_sampling::{Conformity, Distribution, DistributionId, Locality, Manager, Sampler, Scheme};
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// A node that holds the keys for which a function returns true. Its time stands still.
pub(crate) struct Holds<F>(pub(crate) F);

impl<F: Fn(Key) -> bool> Locality for Holds<F> {
    fn is_local(&self, key: Key) -> bool {
        self.0(key)
    }

    fn part(&self, key: Key) -> u32 {
        64 * u32::from(self.0(key))
    }

    /// There are so many nodes that any share of the keys is as much as a node should own.
    fn nodes(&self) -> u32 {
        64
    }

    fn now(&self) -> Tick {
        Tick(0)
    }
}

/// The manager of a node with one distribution.
pub(crate) fn manager(
    distribution: Distribution,
    scheme: Scheme,
    seed: u64,
    node: u16,
) -> (Manager, DistributionId) {
    let mut builder = Sampler::builder();
    let id = builder.register_with(distribution, scheme.offers(), scheme).unwrap();
    (Manager::new(builder.build(), seed, node), id)
}

/// The manager of a node with one distribution, whose scheme the system picks.
pub(crate) fn picked(distribution: Distribution, level: Conformity) -> (Manager, DistributionId) {
    let mut builder = Sampler::builder();
    let id = builder.register(distribution, level);
    (Manager::new(builder.build(), 1, 0), id)
}

/// Prepares and draws `n` samples at once.
pub(crate) fn keys(
    manager: &Manager,
    id: DistributionId,
    n: usize,
    stream: u64,
    place: &impl Locality,
) -> Vec<Key> {
    let mut handle = manager.prepare(id, n, stream, place).unwrap();
    let mut keys = Vec::new();
    manager.draw(&mut handle, n, place, &mut keys, &mut Vec::new()).unwrap();
    keys
}

/// Probability with which any check of a test would fail by chance if the seeds were not fixed.
const FAMILY: f64 = 1e-4;

/// A χ² test among `tests` (Bonferroni): whether counts fit probabilities.
pub(crate) fn fits(counts: &[u64], probabilities: &[f64], tests: usize) -> bool {
    let n: u64 = counts.iter().sum();
    let (mut statistic, mut cells) = (0.0, 0);
    for (count, p) in counts.iter().zip(probabilities) {
        if *p == 0.0 {
            if *count > 0 {
                return false;
            }
            continue;
        }
        let expected = n as f64 * p;
        assert!(expected >= 5.0, "too few draws for a test of fit: {expected} expected");
        statistic += (*count as f64 - expected).powi(2) / expected;
        cells += 1;
    }
    let limit = ChiSquared::new(f64::from(cells - 1)).unwrap().inverse_cdf(1.0 - FAMILY / tests as f64);
    statistic <= limit
}

/// Whether pairs of samples are independent, as one of `tests` such checks: it compares the joint counts with
/// the product of π with itself.
pub(crate) fn independent(pairs: &[(usize, usize)], probabilities: &[f64], tests: usize) -> bool {
    let size = probabilities.len();
    let mut counts = vec![0; size * size];
    for (a, b) in pairs {
        counts[a * size + b] += 1;
    }
    let joint: Vec<f64> =
        probabilities.iter().flat_map(|p| probabilities.iter().map(move |q| p * q)).collect();
    fits(&counts, &joint, tests)
}
