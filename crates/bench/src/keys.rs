//! The keys that are accessed: drawn before the clock runs.

use crate::args::Dist;
use intendant::Key;
use intendant_core::random::Permutation;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64Mcg;

/// Exponent of the skewed distribution.
pub(crate) const ZIPF_EXPONENT: f64 = 1.1;

/// Keys drawn ahead, per thread; enough that no cache remembers the sequence.
const KEYS_DRAWN: usize = 1 << 20;

/// The positions of hot keys in the key space: 0 is mapped to the hottest key.
pub(crate) fn spread(keys: u64) -> Permutation {
    Permutation::new(keys, 7)
}

/// The keys of calls, which repeat when all have been used.
pub(crate) struct Drawn {
    keys: Vec<Key>,
    batch: usize,
}

impl Drawn {
    /// Calls of `batch` keys below `keys`.
    pub(crate) fn new(dist: Dist, keys: u64, batch: usize, seed: u64) -> Self {
        let calls = (KEYS_DRAWN / batch).max(64);
        Self { keys: draw(dist, keys, calls * batch, seed), batch }
    }

    /// Like [`Drawn::new`], for the keys of a list: the distribution is over their positions in the list.
    pub(crate) fn of(list: &[Key], dist: Dist, batch: usize, seed: u64) -> Self {
        let mut drawn = Self::new(dist, list.len() as u64, batch, seed);
        drawn.keys.iter_mut().for_each(|key| *key = list[key.index()]);
        drawn
    }

    /// The keys of a call.
    pub(crate) fn call(&self, call: usize) -> &[Key] {
        let calls = self.keys.len() / self.batch;
        &self.keys[(call % calls) * self.batch..][..self.batch]
    }
}

/// `count` different keys below `keys`, in no particular order. There must be that many.
pub(crate) fn distinct(dist: Dist, keys: u64, count: usize, seed: u64) -> Vec<Key> {
    let mut taken = vec![false; keys as usize];
    let drawn = draw(dist, keys, 4 * count, seed);
    // The remaining keys, if the distribution has drawn the same keys again and again.
    let order = Permutation::new(keys, seed);
    let others = (0..keys).map(|at| Key(order.apply(at)));
    drawn
        .into_iter()
        .chain(others)
        .filter(|key| !std::mem::replace(&mut taken[key.index()], true))
        .take(count)
        .collect()
}

fn draw(dist: Dist, keys: u64, n: usize, seed: u64) -> Vec<Key> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    match dist {
        Dist::Uniform => (0..n).map(|_| Key(rng.random_range(0..keys))).collect(),
        Dist::Zipf => {
            let spread = spread(keys);
            let zipf = Zipf::new(keys as f64, ZIPF_EXPONENT).expect("at least one key, a positive exponent");
            (0..n).map(|_| Key(spread.apply((zipf.sample(&mut rng) as u64 - 1).min(keys - 1)))).collect()
        }
    }
}
