//! The objective on the training rows, and the quality of predictions for held-out rows.
//!
//! Workers share the training rows and the keys. The first worker predicts all held-out rows, because the
//! area under the ROC curve is not a sum over rows. A worker holds a weight for each feature while it
//! evaluates.

use crate::data::{Dataset, Row, Rows};
use crate::metrics::{Measures, Scored, reliability};
use crate::model::{LEN_MAX, Rule, log_loss, sigmoid};
use crate::weights::score;
use intendant_core::{Element, Key, lock};
use intendant_task::{Evaluation, Partition, Reduction, equal_share};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The weight in a value of any element type, rounded to that type, as an export has it: what a run reports
/// is then the quality of the model that it exports.
pub(crate) fn weight_of<E: Element>(rule: &Rule, value: &[E]) -> f64 {
    let mut wide = [0.0; LEN_MAX];
    // A stored value may have further elements.
    let wide = &mut wide[..rule.len()];
    wide.iter_mut().zip(value).for_each(|(wide, x)| *wide = x.to_f64());
    E::from_f64(rule.weight(wide)).to_f64()
}

/// Which held-out rows are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldOut {
    None,
    Valid,
    Test,
}

impl HeldOut {
    fn rows(self, data: &Dataset) -> Option<&Rows> {
        match self {
            Self::None => None,
            Self::Valid => Some(data.valid()),
            Self::Test => Some(data.test()),
        }
    }
}

/// The predicted probabilities of the test rows.
pub(crate) type Predictions = Arc<Mutex<Option<Vec<f64>>>>;

/// One worker's share of the evaluation.
pub(crate) struct Quality {
    data: Arc<Dataset>,
    rule: Rule,
    intercept: bool,
    train: Range<usize>,
    /// The first worker evaluates all of them.
    held_out: HeldOut,
    keys: Vec<Key>,
    range: Range<u64>,
    /// Number of bins of the table for the held-out rows; 0 if there is no table.
    bins: usize,
    predictions: Option<Predictions>,
    sums: Reduction,
    objective: f64,
    penalty: Sum,
    nonzeros: u64,
}

impl Quality {
    pub(crate) fn new(
        data: &Arc<Dataset>,
        (rule, intercept): (Rule, bool),
        held_out: HeldOut,
        (bins, predictions): (usize, Option<Predictions>),
        partition: Partition,
    ) -> Self {
        let share = |total: u64| equal_share(total, partition.worker.into(), partition.workers.into());
        let rows = share(data.train().len() as u64);
        let train = rows.start as usize..rows.end as usize;
        let is_first = partition.worker == 0;
        let held_out = if is_first { held_out } else { HeldOut::None };
        let mut used = vec![false; data.features() as usize];
        let train_rows = train.clone().map(|index| data.train().row(index));
        for row in train_rows.chain(held_out.rows(data).into_iter().flat_map(Rows::iter)) {
            row.features.iter().for_each(|feature| used[*feature as usize] = true);
        }
        let keys = (0..).zip(&used).filter(|(_, used)| **used).map(|(key, _)| Key(key));
        let keys = keys.chain(intercept.then_some(Key(data.features().into()))).collect();
        let mut sums = Reduction::default();
        if is_first {
            // The workers' shares add up to the quality, so the denominator is 1.
            sums.add("quality.count", 1.0);
        }
        Self {
            data: Arc::clone(data),
            rule,
            intercept,
            train,
            held_out,
            keys,
            range: share(data.features().into()),
            bins,
            predictions,
            sums,
            objective: 0.0,
            penalty: Sum::default(),
            nonzeros: 0,
        }
    }

    /// Measures the held-out rows.
    fn measure(&mut self, scored: &[Scored]) {
        let Some(measures) = Measures::of(scored) else { return };
        let Measures { log_loss, auc, accuracy, predicted, observed, calibration_error } = measures;
        for (name, value) in [
            ("quality.log_loss", Some(log_loss)),
            ("quality.auc", auc),
            ("quality.accuracy", Some(accuracy)),
            ("quality.predicted", Some(predicted)),
            ("quality.observed", Some(observed)),
            ("quality.calibration_error", Some(calibration_error)),
        ] {
            value.into_iter().for_each(|value| self.sums.add(name, value));
        }
        if self.bins > 0 {
            for (number, bin) in (1..).zip(reliability(scored, self.bins)) {
                self.sums.add(&format!("quality.reliability_rows_{number}"), bin.rows as f64);
                if bin.rows > 0 {
                    self.sums.add(&format!("quality.reliability_predicted_{number}"), bin.predicted);
                    self.sums.add(&format!("quality.reliability_observed_{number}"), bin.observed);
                }
            }
        }
        if let Some(predictions) = &self.predictions {
            *lock(predictions) = Some(scored.iter().map(|row| sigmoid(row.score)).collect());
        }
    }
}

/// A sum that keeps what rounding loses (Neumaier's), so that it does not depend on the order of the terms:
/// parts of the model arrive in any.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    rounded: f64,
    lost: f64,
}

impl Sum {
    fn add(&mut self, term: f64) {
        let sum = self.rounded + term;
        let (larger, smaller) =
            if self.rounded.abs() >= term.abs() { (self.rounded, term) } else { (term, self.rounded) };
        self.lost += (larger - sum) + smaller;
        self.rounded = sum;
    }

    fn total(self) -> f64 {
        self.rounded + self.lost
    }
}

impl<E: Element> Evaluation<E> for Quality {
    fn keys(&self) -> &[Key] {
        &self.keys
    }

    fn take(&mut self, values: &[E]) {
        let len = self.rule.len();
        let mut weights = vec![0.0; self.data.features() as usize + 1];
        for (key, value) in self.keys.iter().zip(values.chunks_exact(len)) {
            weights[key.index()] = weight_of(&self.rule, value);
        }
        let constant = if self.intercept { weights[self.data.features() as usize] } else { 0.0 };
        let data = Arc::clone(&self.data);
        let scored = |row: Row<'_>| {
            let score = score(constant, row, |feature| weights[feature as usize]);
            Scored { score, label: row.label }
        };
        let train = self.train.clone().map(|index| scored(data.train().row(index)));
        self.objective += train.map(|row| log_loss(row.score, row.label)).sum::<f64>();
        if let Some(rows) = self.held_out.rows(&data) {
            self.measure(&rows.iter().map(scored).collect::<Vec<_>>());
        }
    }

    fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    fn part(&mut self, keys: &[Key], values: &[E]) {
        // As stored, including what a rule keeps after the value.
        let row = values.len() / keys.len().max(1);
        for value in values.chunks_exact(row.max(1)) {
            let weight = weight_of(&self.rule, value);
            self.penalty.add(self.rule.penalty(weight));
            self.nonzeros += u64::from(weight != 0.0);
        }
    }

    fn finish(self: Box<Self>) -> Reduction {
        let mut sums = self.sums;
        // The objective is a sum over training rows.
        if !self.data.train().is_empty() {
            sums.add("quality.objective", self.objective + self.penalty.total());
        }
        sums.add("quality.nonzeros", self.nonzeros as f64);
        sums
    }
}
