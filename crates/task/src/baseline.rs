//! What a trivial predictor reaches.

use crate::Better;

/// The quality of a predictor that knows only averages of the training data, on the test data. A model that
/// is worse has learnt nothing of use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baseline {
    /// What it predicts by, in a word or two: `biases`.
    pub name: &'static str,
    /// A metric of the report's `test`.
    pub metric: &'static str,
    /// Which of two values of the metric is better.
    pub better: Better,
    /// Its value.
    pub value: f64,
}

impl Baseline {
    /// Whether `model`, a value of the same metric, is worse.
    #[must_use]
    pub fn beats(&self, model: f64) -> bool {
        match self.better {
            Better::Lower => model.is_nan() || model > self.value,
            Better::Higher => model.is_nan() || model < self.value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_one_wins_and_a_tie_is_no_defeat() {
        let baseline = |better| Baseline { name: "mean", metric: "m", better, value: 1.0 };
        assert!(baseline(Better::Lower).beats(1.1) && !baseline(Better::Lower).beats(1.0));
        assert!(baseline(Better::Higher).beats(0.9) && !baseline(Better::Higher).beats(1.0));
        assert!(baseline(Better::Lower).beats(f64::NAN) && baseline(Better::Higher).beats(f64::NAN));
    }
}
