//! The weights of a model, and the scores that they give to rows.

use crate::data::Row;
use intendant_core::random::stream;

/// Initial weights, or those of a trained model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights {
    /// Features and their weights, ascending by feature. Others have weight zero.
    pub features: Vec<(u32, f64)>,
    /// The weight of the intercept.
    pub intercept: f64,
}

impl Weights {
    pub(crate) fn digest(&self) -> u64 {
        let hash =
            |digest, (feature, weight): &(u32, f64)| stream(digest, &[u64::from(*feature), weight.to_bits()]);
        self.features.iter().fold(self.intercept.to_bits(), hash)
    }

    /// The weight of a feature.
    #[must_use]
    pub fn of(&self, feature: u32) -> f64 {
        let found = self.features.binary_search_by_key(&feature, |(feature, _)| *feature);
        found.map_or(0.0, |at| self.features[at].1)
    }

    /// The logarithm of the odds of a positive label of a row, to the last digit as in an evaluation.
    #[must_use]
    pub fn score(&self, row: Row<'_>) -> f64 {
        score(self.intercept, row, |feature| self.of(feature))
    }
}

/// The score of a row. The terms are added up in the order of the features.
pub(crate) fn score(intercept: f64, row: Row<'_>, weight: impl Fn(u32) -> f64) -> f64 {
    let terms = row.entries().map(|(feature, value)| weight(feature) * f64::from(value));
    intercept + terms.sum::<f64>()
}
