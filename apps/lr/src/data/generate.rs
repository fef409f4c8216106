//! Generated rows whose true weights are known.
//!
//! The features of a row are drawn by Zipf's law, each at most once, with value 1. A fifth of the features
//! have a weight, which is normally distributed. The label is positive with the probability that logistic
//! regression with these weights predicts. So the loss of these weights is a lower bound of every model's
//! loss.

use super::{Dataset, FEATURES_MAX, Naming, Row, Rows};
use intendant_core::random::{Permutation, stream, unit};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal, Zipf};
use rand_pcg::Pcg64Mcg;

/// Rows to be generated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Generator {
    /// Training rows. There are a fifth as many test rows in addition.
    pub rows: u32,
    /// Features.
    pub features: u32,
    /// Features drawn for each row; a row has each of them once.
    pub draws: u32,
    /// Seed of everything.
    pub seed: u64,
}

/// Rows that cannot be generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeneratorError {
    /// A name that is not of the expected form.
    #[error(
        "there is no data set builtin:{name}; there is builtin:sparse, and of other sizes e.g. builtin:sparse:100000x50000x30 (rows x features x features of a row)"
    )]
    Unknown {
        /// The name.
        name: String,
    },
    /// More rows or features than are possible.
    #[error(
        "builtin:{name} is too large: rows times features of a row are {DRAWS_MAX} at most, features {FEATURES_MAX}"
    )]
    TooLarge {
        /// The name.
        name: String,
    },
}

/// Maximum number of features of all rows together.
const DRAWS_MAX: u64 = 1 << 33;

/// Exponent of Zipf's law.
const EXPONENT: f64 = 1.0;

/// The part of the features with a weight.
const WEIGHTED: f64 = 0.2;

/// Names of the uses of the seed.
const WEIGHT: u64 = 1;
const ROW: u64 = 2;
const ORDER: u64 = 3;

impl Generator {
    /// The generator of `builtin:NAME`. The data does not depend on the seed of a run.
    ///
    /// # Errors
    /// If there is no data set of this name, or it is too large.
    pub fn named(name: &str) -> Result<Self, GeneratorError> {
        let unknown = || GeneratorError::Unknown { name: name.to_owned() };
        let (kind, size) = name.split_once(':').map_or((name, None), |(kind, size)| (kind, Some(size)));
        if kind != "sparse" {
            return Err(unknown());
        }
        let mut sizes = [20_000, 2_000, 20];
        if let Some(size) = size {
            let parts: Vec<u32> =
                size.split('x').map(|text| text.parse().map_err(|_| unknown())).collect::<Result<_, _>>()?;
            sizes = parts.try_into().map_err(|_| unknown())?;
        }
        let [rows, features, draws] = sizes;
        if sizes.contains(&0) {
            return Err(unknown());
        }
        if u64::from(rows) * u64::from(draws) > DRAWS_MAX || features > FEATURES_MAX {
            return Err(GeneratorError::TooLarge { name: name.to_owned() });
        }
        Ok(Self { rows, features, draws, seed: 1 })
    }

    /// Test rows.
    pub fn test_rows(&self) -> u32 {
        (self.rows / 5).max(1)
    }

    /// The true weight of a feature.
    pub fn weight(&self, feature: u32) -> f64 {
        let seed = stream(self.seed, &[WEIGHT, feature.into()]);
        if unit(seed) >= WEIGHTED {
            return 0.0;
        }
        StandardNormal.sample(&mut Pcg64Mcg::seed_from_u64(seed))
    }

    /// The score of a row with the true weights: the logarithm of the odds of a positive label.
    pub fn score(&self, row: Row<'_>) -> f64 {
        row.entries().map(|(feature, value)| f64::from(value) * self.weight(feature)).sum()
    }

    /// Makes the data.
    pub fn generate(&self) -> Dataset {
        let (mut train, mut test) = (Rows::default(), Rows::default());
        let order = Permutation::new(self.features.into(), stream(self.seed, &[ORDER]));
        // `named` would have refused parameters out of range.
        let Ok(law) = Zipf::new(f64::from(self.features.max(1)), EXPONENT) else {
            unreachable!("Zipf's law for {} features", self.features)
        };
        let weights: Vec<f64> = (0..self.features).map(|feature| self.weight(feature)).collect();
        for index in 0..u64::from(self.rows) + u64::from(self.test_rows()) {
            let mut random = Pcg64Mcg::seed_from_u64(stream(self.seed, &[ROW, index]));
            let draw = |_| {
                let rank: f64 = law.sample(&mut random);
                order.apply((rank as u64).clamp(1, self.features.into()) - 1) as u32
            };
            let mut features: Vec<u32> = (0..self.draws).map(draw).collect();
            features.sort_unstable();
            features.dedup();
            let score: f64 = features.iter().map(|feature| weights[*feature as usize]).sum();
            let label = random.random::<f64>() < 1.0 / (1.0 + (-score).exp());
            let rows = if index < self.rows.into() { &mut train } else { &mut test };
            rows.push(label, features.into_iter().map(|feature| (feature, 1.0)));
        }
        Dataset::new(self.features, Naming::Numbers, train, Rows::default(), test)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_form_asked_for() {
        let generator = Generator::named("sparse:500x100x8").unwrap();
        let data = generator.generate();
        assert_eq!((data.train().len(), data.test().len(), data.features()), (500, 100, 100));
        assert!(data.train().iter().all(|row| (1..=8).contains(&row.features.len())));
        let positives = data.train().positives();
        assert!((100..400).contains(&positives), "{positives} of 500 are positive");
        assert_eq!(data.digest(), generator.generate().digest());
        assert_ne!(data.digest(), Generator { seed: 2, ..generator }.generate().digest());
        let weighted = (0..100).filter(|feature| generator.weight(*feature) != 0.0).count();
        assert!((8..35).contains(&weighted), "{weighted} of 100");
    }

    /// Labels are as probable as the weights predict.
    #[test]
    fn labels_follow_the_weights() {
        let generator = Generator::named("sparse:20000x200x10").unwrap();
        let data = generator.generate();
        let (mut expected, mut variance) = (0.0, 0.0);
        let mut found = 0.0;
        for row in data.train().iter().filter(|row| generator.score(*row) > 0.5) {
            let probability = 1.0 / (1.0 + (-generator.score(row)).exp());
            expected += probability;
            variance += probability * (1.0 - probability);
            found += f64::from(u8::from(row.label));
        }
        assert!(variance > 100.0);
        assert!((found - expected).abs() < 5.0 * variance.sqrt(), "{found}, not {expected}");
    }

    #[test]
    fn other_names_are_refused() {
        for name in ["other", "sparse:1x2", "sparse:0x2x3", "sparse:1x2x3x4", "sparse:ax2x3"] {
            let error = Generator::named(name).unwrap_err().to_string();
            assert!(error.starts_with(&format!("there is no data set builtin:{name}; there is")), "{error}");
        }
        let error = Generator::named("sparse:4000000000x5x4000").unwrap_err().to_string();
        assert!(error.contains("is too large"), "{error}");
    }
}
