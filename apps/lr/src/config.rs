//! Hyperparameters.

use crate::model::{Optimizer, Rule};
use intendant_train::SettingError;

/// Hyperparameters; [`Lr::new`](crate::Lr::new) checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The rule that turns gradients into steps.
    pub optimizer: Optimizer,
    /// Learning rate; α of FTRL.
    pub learning_rate: f64,
    /// FTRL's β: the steps of a feature begin with α / β.
    pub beta: f64,
    /// Weight of the L1 penalty, the sum of the absolute values of all weights. Only FTRL and proximal steps
    /// have it.
    pub l1: f64,
    /// Weight of the L2 penalty, half the sum of the squares of all weights.
    pub l2: f64,
    /// Whether each row has a feature of value 1, which is not penalised.
    pub intercept: bool,
    /// Maximum number of rows per batch.
    pub batch: usize,
    /// Number of blocks of features, for proximal steps.
    pub blocks: u32,
    /// For proximal steps: by how many batches the values that a batch reads may lag behind other workers.
    /// The technique bounds this delay.
    pub delay: u32,
    /// For proximal steps: the margin of the KKT filter, from 0 to 1. Features whose weight is zero are left
    /// out if the gradient of the loss is smaller than the L1 penalty by this fraction of it. `None`: no
    /// filter.
    pub kkt: Option<f64>,
    /// Bins of the table of predicted and observed probabilities; 0 if there is none.
    pub reliability: usize,
    /// Seed of the order of rows.
    pub seed: u64,
}

/// Maximum number of rows of a batch.
const BATCH_MAX: usize = 1 << 24;

/// Maximum number of blocks: each is a batch.
const BLOCKS_MAX: u32 = 1 << 20;

/// Maximum number of bins of the table.
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
        if self.blocks == 0 || self.blocks > BLOCKS_MAX {
            return Err(SettingError::new("blocks", self.blocks, format!("a number from 1 to {BLOCKS_MAX}")));
        }
        if let Some(margin) = self.kkt.filter(|margin| !(0.0..=1.0).contains(margin)) {
            return Err(SettingError::new("kkt", margin, "a number from 0 to 1"));
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
        if self.optimizer == Optimizer::Proximal {
            if self.learning_rate >= 2.0 {
                return Err(SettingError::new("lr", self.learning_rate, "below 2: longer steps overshoot"));
            }
            if self.kkt.is_some() && self.l1 == 0.0 {
                let what = "left out without --l1 or --c, as there is no penalty that keeps weights at zero";
                return Err(SettingError::new("kkt", self.kkt.unwrap_or_default(), what));
            }
            if self.kkt.is_some() && self.delay > self.blocks {
                let what = format!("left out with a staleness of more than {} blocks", self.blocks);
                return Err(SettingError::new("kkt", self.kkt.unwrap_or_default(), what));
            }
        }
        if self.l1 > 0.0 && !self.optimizer.has_l1() {
            return Err(SettingError::new(
                "l1",
                self.l1,
                "0 or left out with adagrad and sgd, whose weights would never be zero, or used with ftrl or proximal",
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
