//! Which epoch is the best so far, and when to end training that no longer improves.

use crate::Reduction;
use std::num::NonZeroU32;

/// Which of two values of a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The lower one: an error or a loss.
    Lower,
    /// The higher one: a share of hits.
    Higher,
}

/// The metric by which validations are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Criterion {
    /// Name of its sum without `quality.`: `rmse^2` for the root of a mean square.
    pub metric: &'static str,
    /// Which of two values is better.
    pub better: Better,
}

impl Criterion {
    /// The mean of the metric's sum; `None` if there was no validation, or the mean is not finite.
    #[must_use]
    pub fn of(self, sums: &Reduction) -> Option<f64> {
        let count = sums.get("quality.count");
        let sum = sums.sums.get(&format!("quality.{}", self.metric))?;
        Some(sum / count).filter(|mean| count > 0.0 && mean.is_finite())
    }

    /// The best of some epochs, numbered from 0, and how many validations followed it. If several are equally
    /// good, the first is the best. A validation whose mean is not finite is worse than all others. `None`
    /// without any validation.
    pub fn best<'a>(self, epochs: impl IntoIterator<Item = &'a Reduction>) -> Option<Best> {
        let mut best: Option<(f64, Best)> = None;
        for (epoch, sums) in epochs.into_iter().enumerate() {
            if sums.get("quality.count") <= 0.0 {
                continue;
            }
            let worst = match self.better {
                Better::Lower => f64::INFINITY,
                Better::Higher => f64::NEG_INFINITY,
            };
            let found = self.of(sums).unwrap_or(worst);
            let is_better = |before: f64| match self.better {
                Better::Lower => found < before,
                Better::Higher => found > before,
            };
            match &mut best {
                Some((before, best)) if !is_better(*before) => best.validations_since += 1,
                Some(_) | None => best = Some((found, Best { epoch, validations_since: 0 })),
            }
        }
        best.map(|(_, best)| best)
    }
}

/// The best epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Best {
    /// From 0.
    pub epoch: usize,
    /// Validations after it.
    pub validations_since: u32,
}

/// When to end training that no longer improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The metric that is compared.
    pub criterion: Criterion,
    /// The number of consecutive validations without improvement after which training ends.
    pub validations: NonZeroU32,
}

impl Patience {
    /// Whether training ends after these epochs.
    pub fn ends<'a>(self, epochs: impl IntoIterator<Item = &'a Reduction>) -> bool {
        let best = self.criterion.best(epochs);
        best.is_some_and(|best| best.validations_since >= self.validations.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(means: &[Option<f64>]) -> Vec<Reduction> {
        let epoch = |mean: &Option<f64>| {
            let mut sums = Reduction::default();
            if let Some(mean) = mean {
                sums.add("quality.error", 4.0 * mean);
                sums.add("quality.count", 4.0);
            }
            sums
        };
        means.iter().map(epoch).collect()
    }

    #[test]
    fn the_best_is_the_first_of_the_best_validations() {
        let found = |better, means: &[Option<f64>]| {
            let criterion = Criterion { metric: "error", better };
            criterion.best(&epochs(means)).map(|best| (best.epoch, best.validations_since))
        };
        let means = [None, Some(3.0), Some(1.0), None, Some(1.0), Some(f64::NAN), Some(5.0)];
        assert_eq!(found(Better::Lower, &means), Some((2, 3)));
        assert_eq!(found(Better::Higher, &means), Some((6, 0)));
        assert_eq!(found(Better::Lower, &[None, None]), None);
        assert_eq!(found(Better::Lower, &[Some(f64::NAN), Some(2.0)]), Some((1, 0)));
    }

    #[test]
    fn patience_counts_validations_and_not_epochs() {
        let criterion = Criterion { metric: "error", better: Better::Lower };
        let patience = Patience { criterion, validations: NonZeroU32::new(2).expect("two") };
        let means = [Some(2.0), None, Some(3.0), None, Some(2.0)];
        let all = epochs(&means);
        for end in 0..=means.len() {
            assert_eq!(patience.ends(&all[..end]), end == 5, "{end} epochs");
        }
    }
}
