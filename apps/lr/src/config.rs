//! Hyperparameters.

use crate::model::{Optimizer, Rule};
use intendant_train::SettingError;

/// Hyperparameters; [`Lr::new`](crate::Lr::new) checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The rule that turns gradients into steps.
    pub optimizer: Optimizer,
    /// Learning rate; of FTRL α.
    pub learning_rate: f64,
    /// FTRL's β: the steps of a feature begin with α / β.
    pub beta: f64,
    /// Weight of the L1 penalty, the sum of the sizes of all weights. Of FTRL only.
    pub l1: f64,
    /// Weight of the L2 penalty, half the sum of the squares of all weights.
    pub l2: f64,
    /// Whether each row has a feature of value 1, which is not penalised.
    pub intercept: bool,
    /// Rows per batch, at most.
    pub batch: usize,
    /// Bins of the table of predicted and observed probabilities; 0 if there is none.
    pub reliability: usize,
    /// Seed of the order of rows.
    pub seed: u64,
}

/// Rows of a batch at most.
const BATCH_MAX: usize = 1 << 24;

/// Bins of the table at most.
const BINS_MAX: usize = 1000;

impl Config {
    /// Checks whether a model with these hyperparameters can be trained.
    ///
    /// # Errors
    /// Names the first hyperparameter that is out of its limits.
    pub fn check(&self) -> Result<(), SettingError> {
        if self.batch == 0 || self.batch > BATCH_MAX {
            return Err(SettingError::new("batch", self.batch, format!("a number from 1 to {BATCH_MAX}")));
        }
        if self.reliability > BINS_MAX {
            return Err(SettingError::new("reliability", self.reliability, format!("at most {BINS_MAX}")));
        }
        for (name, number) in [("lr", self.learning_rate), ("beta", self.beta)] {
            if !(number > 0.0 && number.is_finite()) {
                return Err(SettingError::new(name, number, "a number above 0"));
            }
        }
        for (name, number) in [("l1", self.l1), ("l2", self.l2)] {
            if !(number >= 0.0 && number.is_finite()) {
                return Err(SettingError::new(name, number, "a number of at least 0"));
            }
        }
        if self.l1 > 0.0 && self.optimizer != Optimizer::Ftrl {
            return Err(SettingError::new(
                "l1",
                self.l1,
                "0 or left out with adagrad and sgd, whose weights would never be zero, or used with ftrl",
            ));
        }
        Ok(())
    }

    pub(crate) const fn rule(&self) -> Rule {
        Rule {
            optimizer: self.optimizer,
            rate: self.learning_rate,
            beta: self.beta,
            l1: self.l1,
            l2: self.l2,
        }
    }
}
