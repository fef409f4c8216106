//! Hyperparameters and their limits.

use intendant_core::limits;
use intendant_train::SettingError;

/// Hyperparameters; [`crate::Lda::new`] checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Number of topics.
    pub topics: usize,
    /// Concentration of the topics of a document, for each topic (α).
    pub alpha: f64,
    /// Concentration of the words of a topic, for each word (η).
    pub eta: f64,
    /// Maximum number of documents of a batch.
    pub batch: u64,
    /// Words of each topic that are shown and exported.
    pub top_words: usize,
    /// Seed of the order of documents, and of everything that is drawn.
    pub seed: u64,
}

/// Maximum number of topics: a value in double precision is within its limit.
const TOPICS_MAX: usize = limits::VALUE_BYTES_MAX / 8;

/// Maximum number of documents of a batch.
const BATCH_MAX: u64 = 1 << 20;

/// Maximum number of words of a topic that are shown; the exported matrix has more.
const TOP_WORDS_MAX: usize = 1000;

/// Maximum concentration: with larger ones, nothing is learnt from counts.
const CONCENTRATION_MAX: f64 = 1e6;

/// Minimum concentration, so that weights are positive numbers in single precision.
const CONCENTRATION_MIN: f64 = 1e-9;

impl Config {
    /// Checks whether a model with these hyperparameters can be trained.
    ///
    /// # Errors
    /// Names the first hyperparameter that is out of its limits.
    pub fn check(&self) -> Result<(), SettingError> {
        let counts = [
            ("topics", self.topics as u64, 1, TOPICS_MAX as u64),
            ("batch", self.batch, 1, BATCH_MAX),
            ("top-words", self.top_words as u64, 0, TOP_WORDS_MAX as u64),
        ];
        for (name, count, min, max) in counts {
            if !(min..=max).contains(&count) {
                return Err(SettingError::new(name, count, format!("a number from {min} to {max}")));
            }
        }
        for (name, number) in [("alpha", self.alpha), ("eta", self.eta)] {
            if !(CONCENTRATION_MIN..=CONCENTRATION_MAX).contains(&number) {
                let allowed = format!("a number from {CONCENTRATION_MIN} to {CONCENTRATION_MAX}");
                return Err(SettingError::new(name, number, allowed));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hyperparameters_without_sense_are_refused() {
        let config = Config { topics: 20, alpha: 0.1, eta: 0.01, batch: 16, top_words: 10, seed: 1 };
        config.check().unwrap();
        let refused = |change: fn(&mut Config)| {
            let mut config = config.clone();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert_eq!(refused(|c| c.topics = 0), "topics is 0; it must be a number from 1 to 524288");
        assert_eq!(refused(|c| c.batch = 0), "batch is 0; it must be a number from 1 to 1048576");
        assert_eq!(refused(|c| c.top_words = 1001), "top-words is 1001; it must be a number from 0 to 1000");
        let allowed = "it must be a number from 0.000000001 to 1000000";
        assert_eq!(refused(|c| c.alpha = 0.0), format!("alpha is 0; {allowed}"));
        assert_eq!(refused(|c| c.eta = f64::NAN), format!("eta is NaN; {allowed}"));
    }
}
