//! Predictions of held-out entries, and the posterior of rows: averages over samples, in double precision.

use crate::config::Config;
use crate::tree::Merge;
use statrs::distribution::{ContinuousCDF, Normal};

/// Mean and sum of squared deviations, updated sample by sample [Welford 1962].
#[inline(always)]
pub(crate) fn average(mean: &mut f64, squares: &mut f64, value: f64, samples: f64) {
    let before = value - *mean;
    *mean += before / samples;
    *squares += before * (value - *mean);
}

/// Entries that are held out and predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// Entries by which users watch the chain.
    Validation = 0,
    /// Entries that test the chain at the end.
    Test = 1,
}

impl Held {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Validation, Self::Test];
}

/// The predictions of one held-out entry so far, centred.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Prediction {
    /// The prediction of the last sample.
    pub(crate) current: f64,
    /// Mean over the samples after the burn-in.
    pub(crate) mean: f64,
    /// Sum of the squared deviations from it.
    pub(crate) squares: f64,
}

/// A predicted held-out entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Row of the matrix.
    pub row: u32,
    /// Column of the matrix.
    pub column: u32,
    /// The value that was held out.
    pub value: f64,
    /// Posterior mean.
    pub mean: f64,
    /// Standard deviation of a new observation of the cell. Its square is the variance of the predictions
    /// over the samples plus that of the noise, 1/α.
    pub deviation: f64,
    /// Lower end of the predictive interval.
    pub low: f64,
    /// Upper end of the predictive interval.
    pub high: f64,
}

/// How predictions are turned into forecasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlook {
    centre: f64,
    noise: f64,
    quantile: f64,
    samples: u32,
}

impl Outlook {
    /// The outlook after `samples` samples that count. Without any, the last sample is the forecast. `centre`
    /// was subtracted from all values.
    pub(crate) fn new(config: &Config, centre: f64, samples: u32) -> Self {
        let quantile = Normal::standard().inverse_cdf(0.5 + config.interval / 2.0);
        Self { centre, noise: 1.0 / config.alpha, quantile, samples }
    }

    pub(crate) fn forecast(&self, (row, column, value): (u32, u32, f64), of: &Prediction) -> Forecast {
        let (mean, variance) = match self.samples {
            0 => (of.current, 0.0),
            1 => (of.mean, 0.0),
            samples => (of.mean, of.squares / f64::from(samples - 1)),
        };
        let (mean, deviation) = (self.centre + mean, (variance + self.noise).sqrt());
        let half = self.quantile * deviation;
        Forecast {
            row,
            column,
            value: self.centre + value,
            mean,
            deviation,
            low: mean - half,
            high: mean + half,
        }
    }
}

/// Sums over training and held-out entries, from which the report is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Training entries.
    pub examples: f64,
    /// Squared errors of the last sample on the training entries.
    pub loss: f64,
    /// Held-out entries.
    pub tested: f64,
    /// Squared errors of the forecasts.
    pub squares: f64,
    /// Absolute errors of the forecasts.
    pub sizes: f64,
    /// Held-out entries inside of their predictive intervals.
    pub covered: f64,
    /// Widths of the predictive intervals.
    pub widths: f64,
}

impl Sums {
    /// Root mean squared error of the forecasts; `None` without held-out entries.
    pub fn rmse(&self) -> Option<f64> {
        (self.tested > 0.0).then(|| (self.squares / self.tested).sqrt())
    }

    pub(crate) fn add(&mut self, forecast: &Forecast) {
        let error = forecast.value - forecast.mean;
        self.tested += 1.0;
        self.squares += error * error;
        self.sizes += error.abs();
        self.covered += f64::from(u8::from((forecast.low..=forecast.high).contains(&forecast.value)));
        self.widths += forecast.high - forecast.low;
    }
}

impl Merge for Sums {
    fn merge(&mut self, other: &Self) {
        self.examples += other.examples;
        self.loss += other.loss;
        self.tested += other.tested;
        self.squares += other.squares;
        self.sizes += other.sizes;
        self.covered += other.covered;
        self.widths += other.widths;
    }
}

/// The posterior of some rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Posterior {
    /// The first of the rows.
    pub first: u32,
    /// Means, K per row.
    pub means: Vec<f64>,
    /// Variances, K per row; 0 if there are fewer than two samples.
    pub variances: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_as_wide_as_samples_and_noise_say() {
        let config = Config { alpha: 4.0, interval: 0.5, ..Config::default() };
        let mut prediction = Prediction::default();
        for (samples, value) in (1..).zip([1.0, 2.0, 4.0]) {
            prediction.current = value;
            average(&mut prediction.mean, &mut prediction.squares, value, f64::from(samples));
        }
        let forecast = |samples| Outlook::new(&config, 10.0, samples).forecast((0, 0, 1.0), &prediction);
        let last = forecast(3);
        assert!((last.mean - (10.0 + 7.0 / 3.0)).abs() < 1e-12);
        // The variance of 1, 2, 4 is 7/3.
        assert!((last.deviation - (7.0f64 / 3.0 + 0.25).sqrt()).abs() < 1e-12);
        assert!((last.high - last.mean - 0.674_489_750_196_081_7 * last.deviation).abs() < 1e-9);
        assert_eq!((forecast(0).mean, forecast(0).deviation), (14.0, 0.5));
        let mut sums = Sums::default();
        sums.add(&last);
        assert_eq!((sums.tested, sums.covered, last.value), (1.0, 0.0, 11.0));
    }
}
