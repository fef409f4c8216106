//! The keys that are accessed: drawn before the clock runs.

use crate::args::Dist;
use intendant::Key;
use intendant_core::random::Permutation;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64Mcg;

const ZIPF_EXPONENT: f64 = 1.1;

/// `calls * batch` keys below `keys`.
pub(crate) fn draw(dist: Dist, keys: u64, calls: usize, batch: usize, seed: u64) -> Vec<Key> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let n = calls * batch;
    match dist {
        Dist::Uniform => (0..n).map(|_| Key(rng.random_range(0..keys))).collect(),
        Dist::Zipf => {
            let spread = Permutation::new(keys, 7);
            let zipf = Zipf::new(keys as f64, ZIPF_EXPONENT).expect("at least one key, a positive exponent");
            (0..n).map(|_| Key(spread.apply((zipf.sample(&mut rng) as u64 - 1).min(keys - 1)))).collect()
        }
    }
}
