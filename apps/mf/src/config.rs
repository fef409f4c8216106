//! The hyperparameters, and their limits.

use crate::division::Algorithm;
use crate::model::{Optimizer, Scope, Shape};
use intendant_core::limits;
use intendant_train::SettingError;

/// Hyperparameters; [`Mf::new`](crate::Mf::new) checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Factors of each row and column.
    pub rank: usize,
    /// Whether the model has biases, and with them the mean of the training entries.
    pub bias: bool,
    /// How an epoch is divided.
    pub algorithm: Algorithm,
    /// The rule that turns gradients into steps.
    pub optimizer: Optimizer,
    /// Maximum number of entries per batch.
    pub batch: usize,
    /// Learning rate.
    pub learning_rate: f64,
    /// Whether the learning rate grows by 5 % after each epoch in which the loss fell, and is halved after
    /// every other epoch.
    pub bold_driver: bool,
    /// Weight of the L2 penalty of factors; without, it follows from the training entries.
    pub l2: Option<f64>,
    /// Weight of the L2 penalty of biases; without, it follows from the training entries.
    pub l2_bias: Option<f64>,
    /// How often the L2 penalties of a row or column are applied in an epoch.
    pub l2_scope: Scope,
    /// Standard deviation of the initial factors.
    pub init_scale: f64,
    /// Seed of initial values and order.
    pub seed: u64,
}

/// Maximum number of factors: with a bias and accumulators, a value in double precision is within its limit.
const RANK_MAX: usize = limits::VALUE_BYTES_MAX / 16 - 1;

/// The predictions of a model with larger initial values are not finite in single precision.
const INIT_SCALE_MAX: f64 = 1000.0;

/// Maximum number of entries of a batch.
const BATCH_MAX: usize = 1 << 20;

/// Maximum number of elements of a batch's values: they must fit into memory several times, for each worker.
const ELEMENTS_MAX: usize = 1 << 28;

impl Config {
    /// Checks whether a model with these hyperparameters can be trained.
    ///
    /// # Errors
    /// Names the first hyperparameter that is out of its limits.
    pub fn check(&self) -> Result<(), SettingError> {
        let wrong = |name, value: String, allowed: String| Err(SettingError::new(name, value, allowed));
        for (name, count, max) in [("rank", self.rank, RANK_MAX), ("batch", self.batch, BATCH_MAX)] {
            if count == 0 || count > max {
                return wrong(name, count.to_string(), format!("a number from 1 to {max}"));
            }
        }
        let values = 2 * self.batch * self.shape().len();
        if values > ELEMENTS_MAX {
            let allowed = format!(
                "so small that its values are at most {ELEMENTS_MAX} numbers; here they may be {values}"
            );
            return wrong("batch", format!("{} with rank {}", self.batch, self.rank), allowed);
        }
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            return wrong("lr", self.learning_rate.to_string(), "a number above 0".to_owned());
        }
        if !(self.init_scale > 0.0 && self.init_scale <= INIT_SCALE_MAX) {
            let allowed = format!("a number above 0 and at most {INIT_SCALE_MAX}");
            return wrong("init-scale", self.init_scale.to_string(), allowed);
        }
        for (name, number) in [("l2", self.l2), ("l2-bias", self.l2_bias)] {
            let Some(number) = number else { continue };
            if !(number >= 0.0 && number.is_finite()) {
                return wrong(name, number.to_string(), "a number of at least 0".to_owned());
            }
        }
        if self.bold_driver && self.optimizer != Optimizer::Sgd {
            let allowed =
                "left out with adagrad and row-adagrad, which adapt by themselves, or used with sgd";
            let allowed = allowed.to_owned();
            return wrong("bold-driver", "true".to_owned(), allowed);
        }
        Ok(())
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape { rank: self.rank, bias: self.bias, optimizer: self.optimizer }
    }
}
