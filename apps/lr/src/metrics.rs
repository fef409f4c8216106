//! Measures of predicted probabilities.

use crate::model::{log_loss, sigmoid};

/// A row and its prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// The logarithm of the predicted odds of a positive label.
    pub score: f64,
    /// Whether the label is positive.
    pub label: bool,
}

/// The area under the ROC curve: the fraction of the pairs of a positive and a negative row in which the
/// positive row has the larger score; equal scores count half. `None` without positive or without negative
/// rows.
#[must_use]
pub fn auc(rows: &[Scored]) -> Option<f64> {
    let mut sorted: Vec<&Scored> = rows.iter().collect();
    sorted.sort_unstable_by(|a, b| a.score.total_cmp(&b.score));
    let (mut below, mut won, mut positives) = (0.0, 0.0, 0.0);
    // Positive and negative zero are equal, but differ in the total order.
    for tied in sorted.chunk_by(|a, b| a.score == b.score) {
        let here = tied.iter().filter(|row| row.label).count() as f64;
        let negatives = tied.len() as f64 - here;
        won += here * (below + negatives / 2.0);
        below += negatives;
        positives += here;
    }
    (positives > 0.0 && below > 0.0).then(|| won / (positives * below))
}

/// Rows with similar predicted probabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// Number of rows.
    pub rows: u64,
    /// Mean of the predicted probabilities.
    pub predicted: f64,
    /// Fraction of the labels that are positive.
    pub observed: f64,
}

/// The rows in `bins` bins of equal width by predicted probability.
#[must_use]
pub fn reliability(rows: &[Scored], bins: usize) -> Vec<Bin> {
    let mut table = vec![Bin::default(); bins];
    for row in rows {
        let probability = sigmoid(row.score);
        // A score that is not a number is in the first bin.
        let bin = &mut table[((probability * bins as f64) as usize).min(bins - 1)];
        bin.rows += 1;
        bin.predicted += probability;
        bin.observed += f64::from(u8::from(row.label));
    }
    for bin in table.iter_mut().filter(|bin| bin.rows > 0) {
        bin.predicted /= bin.rows as f64;
        bin.observed /= bin.rows as f64;
    }
    table
}

/// Bins of the calibration error.
const CALIBRATION_BINS: usize = 10;

/// Measures of the predictions for held-out rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measures {
    /// Mean loss, in nats.
    pub log_loss: f64,
    /// [`auc`].
    pub auc: Option<f64>,
    /// Fraction of the rows whose label is the more probable one.
    pub accuracy: f64,
    /// Mean of the predicted probabilities.
    pub predicted: f64,
    /// Fraction of the labels that are positive.
    pub observed: f64,
    /// Mean difference between predicted and observed probability, over ten bins of equal width, weighted by
    /// rows.
    pub calibration_error: f64,
}

impl Measures {
    /// The measures of these rows. `None` without rows.
    #[must_use]
    pub fn of(rows: &[Scored]) -> Option<Self> {
        if rows.is_empty() {
            return None;
        }
        let mean = |of: &dyn Fn(&Scored) -> f64| rows.iter().map(of).sum::<f64>() / rows.len() as f64;
        let truth = |is: bool| f64::from(u8::from(is));
        let bins = reliability(rows, CALIBRATION_BINS);
        let error = |bin: &Bin| bin.rows as f64 * (bin.predicted - bin.observed).abs();
        Some(Self {
            log_loss: mean(&|row| log_loss(row.score, row.label)),
            auc: auc(rows),
            accuracy: mean(&|row| truth((row.score > 0.0) == row.label)),
            predicted: mean(&|row| sigmoid(row.score)),
            observed: mean(&|row| truth(row.label)),
            calibration_error: bins.iter().map(error).sum::<f64>() / rows.len() as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Compares all pairs, one by one.
    fn auc_of_pairs(rows: &[Scored]) -> Option<f64> {
        let (mut won, mut pairs) = (0.0, 0.0);
        for positive in rows.iter().filter(|row| row.label) {
            for negative in rows.iter().filter(|row| !row.label) {
                pairs += 1.0;
                won += if positive.score > negative.score {
                    1.0
                } else if positive.score == negative.score {
                    0.5
                } else {
                    0.0
                };
            }
        }
        (pairs > 0.0).then(|| won / pairs)
    }

    proptest! {
        #[test]
        fn auc_is_the_part_of_pairs_in_order(rows in vec((-5i32..5, any::<bool>()), 0..60)) {
            let scored = |(score, label): &(i32, bool)| {
                Scored { score: f64::from(*score) / 2.0, label: *label }
            };
            let rows: Vec<Scored> = rows.iter().map(scored).collect();
            match (auc(&rows), auc_of_pairs(&rows)) {
                (Some(a), Some(b)) => prop_assert!((a - b).abs() < 1e-12, "{} and {}", a, b),
                (a, b) => prop_assert_eq!(a, b),
            }
        }

        #[test]
        fn bins_have_all_rows(scores in vec((-9.0f64..9.0, any::<bool>()), 1..60), bins in 1usize..20) {
            let scored = |(score, label): &(f64, bool)| Scored { score: *score, label: *label };
            let rows: Vec<Scored> = scores.iter().map(scored).collect();
            let table = reliability(&rows, bins);
            prop_assert_eq!(table.iter().map(|bin| bin.rows).sum::<u64>(), rows.len() as u64);
            let sum = table.iter().map(|bin| bin.rows as f64 * bin.predicted).sum::<f64>();
            let mean = sum / rows.len() as f64;
            let measures = Measures::of(&rows).unwrap();
            prop_assert!((mean - measures.predicted).abs() < 1e-9);
            for (at, bin) in table.iter().enumerate().filter(|(_, bin)| bin.rows > 0) {
                let (low, high) = (at as f64 / bins as f64, (at + 1) as f64 / bins as f64);
                prop_assert!((low - 1e-9..high + 1e-9).contains(&bin.predicted));
            }
        }
    }

    #[test]
    fn measures_are_those_of_four_rows() {
        let rows = [(2.0, true), (-1.0, false), (1.0, false), (-3.0, true)]
            .map(|(score, label)| Scored { score, label });
        let measures = Measures::of(&rows).unwrap();
        assert_eq!((measures.accuracy, measures.observed, measures.auc), (0.5, 0.5, Some(0.5)));
        let losses = [2.0f64, 1.0, -1.0, -3.0].map(|margin| (1.0 + (-margin).exp()).ln());
        assert!((measures.log_loss - losses.iter().sum::<f64>() / 4.0).abs() < 1e-12);
        // Each row has a bin of its own.
        let errors = [1.0 - sigmoid(2.0), sigmoid(-1.0), sigmoid(1.0), 1.0 - sigmoid(-3.0)];
        assert!((measures.calibration_error - errors.iter().sum::<f64>() / 4.0).abs() < 1e-12);
        assert_eq!(Measures::of(&[]), None);
    }
}
