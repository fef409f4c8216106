//! Counts of durations, in buckets whose width grows with the duration.

use serde::{Deserialize, Serialize};

/// Buckets per power of two: the width of a bucket is at most an eighth of its durations.
const STEPS: u64 = 8;
/// Durations up to here have buckets of their own.
const EXACT: u64 = 2 * STEPS;
/// Powers of two above `EXACT` that have buckets of their own; all longer durations share the last bucket. In
/// microseconds that is 24 days.
const POWERS: usize = 37;
const BUCKETS: usize = EXACT as usize + POWERS * STEPS as usize;

/// A histogram of durations in microseconds, exact below 16 and within an eighth above. Histograms of
/// different threads and nodes can be added.
///
/// It is serialised as its [`parts`](Histogram::parts).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Parts", try_from = "Parts")]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    sum_us: u64,
}

/// The statistics that reports show of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Mean.
    pub mean: f64,
    /// Median, within an eighth.
    pub p50: f64,
    /// 99th percentile, within an eighth.
    pub p99: f64,
}

/// The sum in microseconds, and the buckets that are not empty with their counts.
#[derive(Serialize, Deserialize)]
struct Parts(u64, Vec<(u64, u64)>);

impl From<Histogram> for Parts {
    fn from(histogram: Histogram) -> Self {
        let (sum_us, parts) = histogram.parts();
        Self(sum_us, parts.collect())
    }
}

impl TryFrom<Parts> for Histogram {
    type Error = &'static str;

    fn try_from(Parts(sum_us, parts): Parts) -> Result<Self, Self::Error> {
        Self::from_parts(sum_us, parts).ok_or("a histogram with a bucket that does not exist")
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), sum_us: 0 }
    }
}

fn bucket(us: u64) -> usize {
    if us < EXACT {
        return us as usize;
    }
    // The leading bit gives the power of two, and the three bits below it give the step.
    let power = 63 - us.leading_zeros() as u64 - 4;
    let step = (us >> (power + 1)) - STEPS;
    ((EXACT + power * STEPS + step) as usize).min(BUCKETS - 1)
}

/// The middle of a bucket.
fn middle(bucket: usize) -> f64 {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return bucket as f64;
    }
    let (power, step) = ((bucket - EXACT) / STEPS, (bucket - EXACT) % STEPS);
    let width = 1u64 << (power + 1);
    ((STEPS + step) * width) as f64 + (width as f64 - 1.0) / 2.0
}

impl Histogram {
    /// Counts a duration of `us` microseconds.
    pub fn record(&mut self, us: u64) {
        self.counts[bucket(us)] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts.iter()) {
            *count = count.saturating_add(*more);
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }

    /// What was recorded after `before`, an earlier state of this histogram.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut later = self.clone();
        for (count, earlier) in later.counts.iter_mut().zip(before.counts.iter()) {
            *count = count.saturating_sub(*earlier);
        }
        later.sum_us = later.sum_us.saturating_sub(before.sum_us);
        later
    }

    /// Number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Their exact mean in microseconds, 0 if there are none.
    #[must_use]
    pub fn mean_us(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum_us as f64 / count as f64,
        }
    }

    /// The duration in microseconds that a `share` of all durations do not exceed, within an eighth; 0 if
    /// there are none.
    #[must_use]
    pub fn quantile_us(&self, share: f64) -> f64 {
        let rank = (share.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (at, count) in self.counts.iter().enumerate() {
            below = u64::saturating_add(below, *count);
            if below >= rank {
                return middle(at);
            }
        }
        0.0
    }

    /// Number of durations of at most `us` microseconds. It is exact if `us` is a power of two minus one;
    /// otherwise it counts the whole bucket of `us`.
    #[must_use]
    pub fn count_up_to(&self, us: u64) -> u64 {
        self.counts[..=bucket(us)].iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The sum of all durations, microseconds.
    #[must_use]
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// Mean, median and 99th percentile, in units of `unit` microseconds.
    #[must_use]
    pub fn distribution(&self, unit: f64) -> Distribution {
        Distribution {
            mean: self.mean_us() / unit,
            p50: self.quantile_us(0.5) / unit,
            p99: self.quantile_us(0.99) / unit,
        }
    }

    /// The sum of all durations and the buckets that are not empty, as (bucket, count): what
    /// [`Histogram::from_parts`] takes.
    pub fn parts(&self) -> (u64, impl Iterator<Item = (u64, u64)>) {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        (self.sum_us, filled.map(|(at, count)| (at as u64, *count)))
    }

    /// The histogram with these parts; `None` if there is no such bucket.
    pub fn from_parts(sum_us: u64, parts: impl IntoIterator<Item = (u64, u64)>) -> Option<Self> {
        let mut histogram = Self { sum_us, ..Self::default() };
        for (at, count) in parts {
            let total = histogram.counts.get_mut(usize::try_from(at).ok()?)?;
            *total = total.saturating_add(count);
        }
        Some(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ordered_and_an_eighth_wide_at_most() {
        let mut previous = 0;
        for us in (0..5_000).chain((0..200).map(|i| 5_000 + i * i * i * 1_000)) {
            let at = bucket(us);
            assert!(at >= previous, "{us}");
            previous = at;
            let error = (middle(at) - us as f64).abs();
            assert!(error <= us as f64 / 16.0, "{us} is counted as {}", middle(at));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn counts_up_to_a_power_of_two_are_exact() {
        let mut all = Histogram::default();
        (0..5_000).for_each(|us| all.record(us));
        for power in 0..13 {
            assert_eq!(all.count_up_to((1 << power) - 1), (1 << power).min(5_000));
        }
        assert_eq!((all.count_up_to(u64::MAX), all.sum_us()), (5_000, 4_999 * 2_500));
    }

    #[test]
    fn mean_and_quantiles() {
        let mut all = Histogram::default();
        assert_eq!((all.mean_us(), all.quantile_us(0.5)), (0.0, 0.0));
        let mut other = Histogram::default();
        (1..=10).for_each(|us| all.record(us));
        (11..=15).for_each(|us| other.record(us));
        all.merge(&other);
        assert_eq!(all.since(&other).mean_us(), 5.5, "ten of them were not in the other");
        assert_eq!((all.count(), all.mean_us()), (15, 8.0));
        assert_eq!((all.quantile_us(0.0), all.quantile_us(0.5), all.quantile_us(1.0)), (1.0, 8.0, 15.0));
        let (sum, parts) = all.parts();
        assert_eq!(Histogram::from_parts(sum, parts.collect::<Vec<_>>()), Some(all));
        assert_eq!(Histogram::from_parts(0, [(BUCKETS as u64, 1)]), None);
        let absurd =
            Histogram::from_parts(u64::MAX, [(3, u64::MAX), (4, u64::MAX)]).expect("buckets that exist");
        assert_eq!((absurd.count(), absurd.quantile_us(0.5)), (u64::MAX, 3.0));
    }
}
