//! Hyperparameters and their limits.

use crate::model::{Optimizer, Shape};
use intendant_core::limits;
use intendant_train::SettingError;

/// Hyperparameters; [`crate::Word2vec::new`] checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Numbers of a word's vector.
    pub dim: usize,
    /// Maximum number of words on each side of a word that are its context; each word draws the actual
    /// number.
    pub window: usize,
    /// Negative samples for each pair of a word and a word of its context.
    pub negatives: usize,
    /// Occurrences of words whose share of the text exceeds this are skipped at random, with a probability
    /// that grows with the share; 0 skips none.
    pub sample: f64,
    /// Negative samples are drawn in proportion to this power of the words' counts.
    pub power: f64,
    /// The rule that turns gradients into steps.
    pub optimizer: Optimizer,
    /// Learning rate. With [`Optimizer::Sgd`] it is the initial rate, which falls linearly to a
    /// ten-thousandth of its value.
    pub learning_rate: f64,
    /// Maximum number of words of a batch, skipped ones included.
    pub batch_words: u64,
    /// Whether each pair of a word and a word of its context is a step of its own, with a pull and a push of
    /// two keys and the pair's samples. Only with batches of one word.
    pub separate: bool,
    /// Passes over the text; the learning rate depends on it.
    pub epochs: u32,
    /// Seed of initial values, order, and everything that is drawn.
    pub seed: u64,
}

/// With accumulators, a value in double precision is within its limit.
const DIM_MAX: usize = limits::VALUE_BYTES_MAX / 16;

/// This window spans a whole piece of default length.
const WINDOW_MAX: usize = 1000;

/// Far more than any published setting.
const NEGATIVES_MAX: usize = 1000;

/// Maximum number of words of a batch.
const BATCH_WORDS_MAX: u64 = 1 << 16;

/// Maximum number of elements of a batch's values: they must fit into memory several times, for each worker.
const ELEMENTS_MAX: u64 = 1 << 28;

/// The learning rate of SGD falls to this fraction of its initial value.
const RATE_LEFT: f64 = 1e-4;

impl Config {
    /// Checks whether a model with these hyperparameters can be trained.
    ///
    /// # Errors
    /// Names the first hyperparameter that is out of its limits.
    pub fn check(&self) -> Result<(), SettingError> {
        let counts = [
            ("dim", self.dim as u64, DIM_MAX as u64),
            ("window", self.window as u64, WINDOW_MAX as u64),
            ("negatives", self.negatives as u64, NEGATIVES_MAX as u64),
            ("batch-words", self.batch_words, BATCH_WORDS_MAX),
        ];
        for (name, count, max) in counts {
            if count == 0 || count > max {
                return wrong(name, count.to_string(), format!("a number from 1 to {max}"));
            }
        }
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            return wrong("lr", self.learning_rate.to_string(), "a number above 0".to_owned());
        }
        if !(0.0..=1.0).contains(&self.sample) {
            let allowed = "a part of the text, from 0 (nothing is skipped) to 1".to_owned();
            return wrong("sample", self.sample.to_string(), allowed);
        }
        if !(0.0..=10.0).contains(&self.power) {
            return wrong("power", self.power.to_string(), "a number from 0 to 10".to_owned());
        }
        if self.separate && self.batch_words != 1 {
            let allowed = "false, unless batch-words is 1".to_owned();
            return wrong("separate", "true".to_owned(), allowed);
        }
        // No factor exceeds its own maximum, so that nothing overflows.
        let pairs = self.batch_words * 2 * self.window as u64;
        let keys = pairs * self.negatives as u64 + self.batch_words * 2 + 2 * self.window as u64;
        let elements = keys * self.shape().len() as u64;
        if elements > ELEMENTS_MAX {
            let value = format!(
                "{} with window {}, {} negatives and dim {}",
                self.batch_words, self.window, self.negatives, self.dim
            );
            let allowed = format!(
                "so small that its values are at most {ELEMENTS_MAX} numbers; here they may be {elements}"
            );
            return wrong("batch-words", value, allowed);
        }
        Ok(())
    }

    pub(crate) const fn shape(&self) -> Shape {
        Shape { dim: self.dim, optimizer: self.optimizer }
    }

    /// Steps of a batch: one, or the maximum number of pairs of a word.
    pub(crate) const fn steps(&self) -> u64 {
        if self.separate { 2 * self.window as u64 } else { 1 }
    }

    /// The learning rate after this part of an epoch's batches.
    pub(crate) fn rate(&self, epoch: u32, part: f64) -> f64 {
        match self.optimizer {
            Optimizer::AdaGrad => self.learning_rate,
            Optimizer::Sgd => {
                let done = (f64::from(epoch) + part) / f64::from(self.epochs.max(1));
                self.learning_rate * (1.0 - done).max(RATE_LEFT)
            }
        }
    }

    /// The probability of keeping an occurrence of a word that occurs `count` times in a text of `total`
    /// words, as in the original program.
    pub(crate) fn kept(&self, count: u64, total: u64) -> f64 {
        if self.sample == 0.0 || count == 0 {
            return 1.0;
        }
        let ratio = count as f64 / (self.sample * total as f64);
        ((ratio.sqrt() + 1.0) / ratio).min(1.0)
    }
}

fn wrong(name: &'static str, value: String, allowed: String) -> Result<(), SettingError> {
    Err(SettingError::new(name, value, allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            dim: 100,
            window: 5,
            negatives: 5,
            sample: 1e-4,
            power: 0.75,
            optimizer: Optimizer::Sgd,
            learning_rate: 0.025,
            batch_words: 100,
            separate: false,
            epochs: 4,
            seed: 1,
        }
    }

    #[test]
    fn hyperparameters_without_sense_are_refused() {
        let refused = |change: fn(&mut Config)| {
            let mut config = config();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        config().check().unwrap();
        assert_eq!(refused(|c| c.dim = 0), "dim is 0; it must be a number from 1 to 262144");
        assert_eq!(refused(|c| c.window = 1001), "window is 1001; it must be a number from 1 to 1000");
        assert!(refused(|c| c.negatives = 0).starts_with("negatives is 0; "));
        assert!(refused(|c| c.batch_words = 1 << 17).starts_with("batch-words is 131072; "));
        assert!(refused(|c| c.learning_rate = f64::NAN).starts_with("lr is NaN; "));
        assert!(refused(|c| c.sample = -1e-4).starts_with("sample is -0.0001; "));
        assert!(refused(|c| c.power = f64::INFINITY).starts_with("power is inf; "));
        assert!(refused(|c| c.separate = true).starts_with("separate is true; "));
        Config { separate: true, batch_words: 1, ..config() }.check().unwrap();
        let at_once = "batch-words is 65536 with window 5, 5 negatives and dim 100; it must be so small that its values are at \
                       most 268435456 numbers; here they may be 340788200";
        assert_eq!(refused(|c| c.batch_words = 1 << 16), at_once);
        let extreme =
            |c: &mut Config| (c.batch_words, c.window, c.negatives, c.dim) = (1 << 16, 1000, 1000, DIM_MAX);
        assert!(refused(extreme).starts_with("batch-words is "));
    }

    #[test]
    fn the_learning_rate_falls_to_a_ten_thousandth() {
        let sgd = config();
        assert_eq!(sgd.rate(0, 0.0), 0.025);
        assert!((sgd.rate(2, 0.0) - 0.0125).abs() < 1e-12 && (sgd.rate(1, 0.5) - 0.015625).abs() < 1e-12);
        assert_eq!(sgd.rate(3, 1.0), 0.025e-4);
        let adagrad = Config { optimizer: Optimizer::AdaGrad, ..config() };
        assert_eq!(adagrad.rate(3, 0.9), 0.025);
    }

    /// The formula of the original: (sqrt(count / (sample · total)) + 1) · sample · total / count.
    #[test]
    fn frequent_words_are_skipped_as_in_the_original() {
        let config = config();
        let (count, total) = (5_000u64, 1_000_000u64);
        let (cn, limit) = (count as f64, 1e-4 * total as f64);
        let expected = ((cn / limit).sqrt() + 1.0) * limit / cn;
        assert!((config.kept(count, total) - expected).abs() < 1e-12);
        assert_eq!(config.kept(100, total), 1.0);
        assert_eq!(Config { sample: 0.0, ..config }.kept(count, total), 1.0);
    }
}
