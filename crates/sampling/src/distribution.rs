//! The distributions to sample from: uniform key ranges and weighted ones (alias tables, O(1) per draw).

use crate::alias::Alias;
use intendant_core::Key;
use rand::{Rng, RngExt};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Why a distribution is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DistributionError {
    /// No key to choose from.
    #[error("a distribution needs at least one key")]
    Empty,
    /// A weight that is negative, infinite or NaN.
    #[error("weight {weight} of the key at position {position} is not a finite number of at least 0")]
    Weight {
        /// Position within the weights.
        position: usize,
        /// The weight.
        weight: f64,
    },
    /// There are more weights than a table can have.
    #[error("a distribution has {keys} weights; it can have {} at most", u32::MAX)]
    TooMany {
        /// Number of weights.
        keys: usize,
    },
    /// All weights are zero.
    #[error("all {keys} weights are zero")]
    AllZero {
        /// Number of weights.
        keys: usize,
    },
}

/// A probability distribution over neighbouring keys.
#[derive(Clone, Debug)]
pub struct Distribution(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Uniform(Range<u64>),
    /// The table is shared: all copies of a registration draw from the same one.
    Weighted {
        keys: Range<u64>,
        table: Arc<Alias>,
    },
}

impl Distribution {
    /// Every key of `keys` with the same probability.
    ///
    /// # Errors
    /// If the range is empty.
    pub fn uniform(keys: Range<u64>) -> Result<Self, DistributionError> {
        if keys.is_empty() {
            return Err(DistributionError::Empty);
        }
        Ok(Self(Kind::Uniform(keys)))
    }

    /// Key `first + i` with a probability in proportion to `weights[i]`.
    ///
    /// # Errors
    /// If there are no weights or too many, one of them is negative or not finite, or all are zero.
    pub fn weighted(first: Key, weights: &[f64]) -> Result<Self, DistributionError> {
        if weights.is_empty() {
            return Err(DistributionError::Empty);
        }
        if let Some(position) = weights.iter().position(|w| !w.is_finite() || *w < 0.0) {
            return Err(DistributionError::Weight { position, weight: weights[position] });
        }
        if u32::try_from(weights.len()).is_err() {
            return Err(DistributionError::TooMany { keys: weights.len() });
        }
        // The sum of all weights may overflow; scaled by the largest they sum to at most their number.
        let largest = weights.iter().fold(0.0f64, |a, b| a.max(*b));
        if largest == 0.0 {
            return Err(DistributionError::AllZero { keys: weights.len() });
        }
        let table = Alias::new(weights.iter().map(|w| w / largest).collect());
        let keys = first.0..first.0 + weights.len() as u64;
        Ok(Self(Kind::Weighted { keys, table: Arc::new(table) }))
    }

    /// Key `first + i` with a probability in proportion to `counts[i]` to the power of `exponent`: with 0.75,
    /// the smoothed unigram distribution of the negatives of word vectors (Mikolov et al. 2013).
    ///
    /// # Errors
    /// As [`Distribution::weighted`], of the powers.
    pub fn unigram(first: Key, counts: &[u64], exponent: f64) -> Result<Self, DistributionError> {
        Self::weighted(first, &Self::unigram_weights(counts, exponent))
    }

    /// The weights of [`Distribution::unigram`], one per count.
    #[must_use]
    pub fn unigram_weights(counts: &[u64], exponent: f64) -> Vec<f64> {
        // 0 to the power of 0 is 1, but a key that never occurs is never drawn.
        let weight = |count: &u64| if *count == 0 { 0.0 } else { (*count as f64).powf(exponent) };
        counts.iter().map(weight).collect()
    }

    /// The keys that it chooses from, some perhaps with probability 0.
    pub fn keys(&self) -> Range<u64> {
        match &self.0 {
            Kind::Uniform(keys) | Kind::Weighted { keys, .. } => keys.clone(),
        }
    }

    /// The probability of each of [`Distribution::keys`], in their order.
    #[must_use]
    pub fn probabilities(&self) -> Vec<f64> {
        match &self.0 {
            Kind::Uniform(keys) => {
                let count = keys.end - keys.start;
                (0..count).map(|_| 1.0 / count as f64).collect()
            }
            Kind::Weighted { table, .. } => table.probabilities(),
        }
    }

    /// Draws one key.
    #[inline]
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Key {
        match &self.0 {
            Kind::Uniform(keys) => Key(rng.random_range(keys.clone())),
            Kind::Weighted { keys, table } => Key(keys.start + table.draw(rng.next_u64())),
        }
    }

    /// Draws `samples` keys, as `samples` calls of [`Distribution::draw`] do. (The method is not generic, so
    /// that the loop is optimised with this crate: the crates of the shell around training are not
    /// optimised.)
    #[inline(never)]
    pub(crate) fn draw_all(&self, rng: &mut Pcg64Mcg, samples: usize) -> VecDeque<Key> {
        match &self.0 {
            Kind::Uniform(_) => (0..samples).map(|_| self.draw(rng)).collect(),
            Kind::Weighted { keys, table } => {
                (0..samples).map(|_| Key(keys.start + table.draw(rng.next_u64()))).collect()
            }
        }
    }

    /// Draws a key for each place of `keys`. (See [`Distribution::draw_all`].)
    #[inline(never)]
    pub(crate) fn fill(&self, rng: &mut Pcg64Mcg, keys: &mut [Key]) {
        match &self.0 {
            Kind::Uniform(_) => keys.iter_mut().for_each(|key| *key = self.draw(rng)),
            Kind::Weighted { keys: range, table } => {
                keys.iter_mut().for_each(|key| *key = Key(range.start + table.draw(rng.next_u64())));
            }
        }
    }
}
