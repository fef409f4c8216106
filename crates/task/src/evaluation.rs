//! Evaluation on a quiescent model, and the sums that workers combine.

use intendant_core::Key;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// Which held-out examples are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// During training.
    Valid,
    /// After training.
    Test,
}

/// Quantities that add up over workers: the numerators and denominators of losses and metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reduction {
    /// Named sums, in double precision.
    pub sums: BTreeMap<String, f64>,
    /// Wrapping sum of digests.
    pub digest: u64,
}

impl Reduction {
    /// Adds `value` to the sum called `name`.
    pub fn add(&mut self, name: &str, value: f64) {
        match self.sums.get_mut(name) {
            Some(sum) => *sum += value,
            None => {
                self.sums.insert(name.to_owned(), value);
            }
        }
    }

    /// The sum called `name`, 0 if no worker added to it.
    pub fn get(&self, name: &str) -> f64 {
        self.sums.get(name).copied().unwrap_or(0.0)
    }

    /// Adds everything of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (name, value) in &other.sums {
            self.add(name, *value);
        }
        self.digest = self.digest.wrapping_add(other.digest);
    }
}

/// One worker's share of an evaluation. No step needs the whole model: the worker pulls the values of some
/// keys, then receives the values of a key range in parts.
pub trait Evaluation<E>: Send {
    /// Keys whose values are pulled first.
    fn keys(&self) -> &[Key];

    /// Takes the values of [`Evaluation::keys`], concatenated.
    fn take(&mut self, values: &[E]);

    /// The range of keys whose values are received in parts; empty if none.
    fn range(&self) -> Range<u64>;

    /// Takes a part of the range: at least one key, in no particular order; over all parts, each key of the
    /// range occurs exactly once. Values are as stored: for keys with a rule, state and pending operands
    /// follow the elements that a pull returns ([`ModelRange::row`](crate::ModelRange::row) elements in
    /// total).
    fn part(&mut self, keys: &[Key], values: &[E]);

    /// The sums, to be combined with those of the other workers. The name of a mean is `quality.NAME`; its
    /// denominator is the sum `quality.count`. For `quality.NAME^2`, the root of the mean is reported as NAME
    /// (an RMSE); for `quality.ln NAME`, the exponential of the mean (a perplexity).
    fn finish(self: Box<Self>) -> Reduction;
}
