//! Action timing: when to act on an intent [thesis §5.3.2; AdaPS Alg. 1].
//!
//! A channel reads the workers' clocks once per *round*. The channel's decisions take effect when owners have
//! answered. If a round is as long as that, the channel must act on an intent now if the worker may reach its
//! start before the round after next has begun: within two rounds. If rounds are shorter, it is within more
//! rounds. The number of clocks that a worker advances in that time is not known. The channel assumes that it
//! is Poisson distributed, estimates its mean, and uses a high quantile to be on the safe side.
//!
//! The estimate is smoothed over rounds in which the worker advanced its clock. In other rounds it does not
//! change: workers wait for each other at the ends of epochs. If a round saw more clocks than the estimate,
//! the channel uses this number instead: a worker that was slowed down because the system acted too late must
//! not keep the system slow.
//!
//! The channel counts clocks per round, independently of the round's length: a channel that was late sees
//! more clocks.

use crate::quantile::PoissonQuantile;

/// How actions are timed. The defaults are the source's [thesis §5.3.2], and there is no need to change them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimingConfig {
    /// Weight of the last round in the estimate, above 0 and up to 1.
    pub smoothing: f64,
    /// Probability with which the channel acts on an intent in time if clocks are as assumed, between 0 and
    /// 1, both excluded.
    pub quantile: f64,
    /// The estimate of clocks per round before the first observation; above 0.
    pub initial: f64,
}

impl Default for TimingConfig {
    fn default() -> Self {
        Self { smoothing: 0.1, quantile: 0.9999, initial: 10.0 }
    }
}

/// An invalid [`TimingConfig`].
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TimingError {
    /// See [`TimingConfig::smoothing`].
    #[error("the smoothing factor of clocks per round is {0}; it must be above 0 and at most 1")]
    Smoothing(f64),
    /// See [`TimingConfig::quantile`].
    #[error("the quantile of clocks per round is {0}; it must lie between 0 and 1, both excluded")]
    Quantile(f64),
    /// See [`TimingConfig::initial`].
    #[error("the first estimate of clocks per round is {0}; it must be above 0 and finite")]
    Initial(f64),
}

/// A valid [`TimingConfig`], ready for use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    config: TimingConfig,
    quantile: PoissonQuantile,
}

impl TimingConfig {
    /// Checks that the configuration is valid.
    ///
    /// # Errors
    /// See [`TimingError`].
    pub fn check(self) -> Result<(), TimingError> {
        Timing::new(self).map(drop)
    }
}

impl Timing {
    /// Checks the configuration.
    ///
    /// # Errors
    /// See [`TimingError`].
    pub fn new(config: TimingConfig) -> Result<Self, TimingError> {
        let TimingConfig { smoothing, quantile, initial } = config;
        if !(smoothing > 0.0 && smoothing <= 1.0) {
            return Err(TimingError::Smoothing(smoothing));
        }
        if !(initial > 0.0 && initial.is_finite()) {
            return Err(TimingError::Initial(initial));
        }
        let quantile = PoissonQuantile::new(quantile).ok_or(TimingError::Quantile(quantile))?;
        Ok(Self { config, quantile })
    }

    /// The estimate for a worker at the start, when its clock is 0.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        Estimate { rate: self.config.initial, clock: 0 }
    }
}

/// How many clocks a worker advances in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Clocks per round, smoothed.
    rate: f64,
    /// The clock at the last round.
    clock: u32,
}

impl Estimate {
    /// Clocks per round, as estimated.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// A round begins, and the worker's clock is `clock`. Returns a clock that the worker is unlikely to
    /// reach within `ahead` rounds. In this round, the channel must act on intents that start before the
    /// returned clock, and on those that have started.
    pub fn round(&mut self, clock: u32, ahead: f64, timing: &Timing) -> u32 {
        let seen = f64::from(clock.saturating_sub(self.clock));
        self.clock = self.clock.max(clock);
        if seen > 0.0 {
            let smoothing = timing.config.smoothing;
            self.rate = (1.0 - smoothing) * self.rate + smoothing * seen;
        }
        clock.saturating_add(timing.quantile.of(ahead * self.rate.max(seen)).max(1))
    }

    /// Rounds were suspended, and begin again: the clocks that have passed meanwhile say nothing about a
    /// round.
    pub fn resume(&mut self, clock: u32) {
        self.clock = self.clock.max(clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing() -> Timing {
        Timing::new(TimingConfig::default()).unwrap()
    }

    #[test]
    fn what_starts_now_is_acted_on_now() {
        let timing = timing();
        let mut estimate = timing.estimate();
        for clock in [0, 5, 5, 1_000_000, u32::MAX - 1] {
            assert!(estimate.round(clock, 2.0, &timing) > clock);
        }
    }

    #[test]
    fn rounds_in_which_nothing_moved_teach_nothing() {
        let timing = timing();
        let mut estimate = timing.estimate();
        estimate.round(40, 2.0, &timing);
        let rate = estimate.rate();
        assert!((rate - 13.0).abs() < 1e-12, "0.9 * 10 + 0.1 * 40, not {rate}");
        for _ in 0..100 {
            estimate.round(40, 2.0, &timing);
        }
        assert_eq!(estimate.rate(), rate);
    }

    #[test]
    fn a_sudden_rise_is_believed_at_once_and_a_fall_slowly() {
        let timing = timing();
        let mut estimate = timing.estimate();
        let ahead = estimate.round(1_000, 2.0, &timing) - 1_000;
        // Twice a thousand, and more than three standard deviations.
        assert!(ahead > 2_000 + 3 * 44, "{ahead}");
        let after = estimate.round(1_001, 2.0, &timing) - 1_001;
        assert!(after < ahead && after > 2 * 90, "{after}: the estimate is 98.2");
    }

    #[test]
    fn a_pause_of_rounds_teaches_nothing() {
        let timing = timing();
        let mut estimate = timing.estimate();
        estimate.resume(1_000_000);
        assert!(estimate.round(1_000_001, 2.0, &timing) < 1_000_100);
    }

    #[test]
    fn nonsense_is_refused() {
        let base = TimingConfig::default();
        assert_eq!(base.check(), Ok(()));
        for smoothing in [0.0, -1.0, 1.1, f64::NAN] {
            let config = TimingConfig { smoothing, ..base };
            assert!(matches!(Timing::new(config), Err(TimingError::Smoothing(_))));
        }
        for quantile in [0.0, 1.0, f64::NAN] {
            let config = TimingConfig { quantile, ..base };
            assert!(matches!(Timing::new(config), Err(TimingError::Quantile(_))));
        }
        for initial in [0.0, -1.0, f64::INFINITY, f64::NAN] {
            let config = TimingConfig { initial, ..base };
            assert!(matches!(config.check(), Err(TimingError::Initial(_))));
        }
    }
}
