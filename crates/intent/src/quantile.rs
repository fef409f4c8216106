//! Quantiles of the Poisson distribution, fast for every rate.
//!
//! Up to a rate of [`SUMMED_MAX`], the code sums up the probabilities, which is exact. Beyond it, the
//! distribution is close to a normal one, and the expansion of Cornish and Fisher up to the third cumulant is
//! off by one at most (`tests/it/quantile.rs`).

use statrs::distribution::{ContinuousCDF, Normal};

/// Rates up to which probabilities are summed: a hundred additions at most.
const SUMMED_MAX: f64 = 50.0;

/// A quantile of the Poisson distribution, for any rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoissonQuantile {
    probability: f64,
    /// The same quantile of the standard normal distribution.
    normal: f64,
}

impl PoissonQuantile {
    /// The quantile for `probability`; `None` unless it lies between 0 and 1, both excluded.
    #[must_use]
    pub fn new(probability: f64) -> Option<Self> {
        (probability > 0.0 && probability < 1.0)
            .then(|| Self { probability, normal: Normal::standard().inverse_cdf(probability) })
    }

    /// The smallest k such that a Poisson variable with mean `rate` is at most k with at least this
    /// probability. Rates that are negative or NaN count as 0.
    #[must_use]
    pub fn of(&self, rate: f64) -> u32 {
        if rate > SUMMED_MAX { self.expanded(rate) } else { self.summed(rate) }
    }

    fn summed(&self, rate: f64) -> u32 {
        // At least 1 for rates that are negative or 0; NaN for NaN. Neither is below the probability.
        let mut mass = (-rate).exp();
        let mut below = mass;
        let mut k = 0;
        // Rounding may lose the remaining terms before the sum reaches a probability close to 1.
        while below < self.probability && mass > 0.0 {
            k += 1;
            mass *= rate / f64::from(k);
            below += mass;
        }
        k
    }

    fn expanded(&self, rate: f64) -> u32 {
        let z = self.normal;
        let root = rate.sqrt();
        // The variable is an integer: half a unit on either side belongs to it.
        let quantile = rate + z * root + (z * z - 1.0) / 6.0 + (z - z * z * z) / (72.0 * root);
        (quantile - 0.5).ceil().clamp(0.0, f64::from(u32::MAX)) as u32
    }
}
