//! The state from which a chain continues after an interruption.
//!
//! It consists of the rows, the sums of their posteriors, and the sums of predictions. Everything else
//! follows: statistics are sums of rows, hyperparameters are drawn given statistics, random numbers are named
//! by iteration and row, and each block gets the rows of other blocks again. So a chain continues with the
//! same bits, even if it is divided among another number of blocks.

use crate::item::Side;
use crate::predict::Held;

/// A kind of value in the state of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Rows of factors of the last sample: K numbers each.
    Row(Side),
    /// Their means over the samples after the burn-in.
    Mean(Side),
    /// Sums of the squared deviations from these.
    Squares(Side),
    /// Predictions of held-out entries, by row and column: of the last sample; mean over the samples after
    /// the burn-in; sum of the squared deviations from it. Centred.
    Prediction(Held),
}

/// Numbers per prediction.
pub(crate) const PREDICTION: usize = 3;

impl Quantity {
    /// All quantities. The first [`Quantity::SAMPLE`] are a sample, with which another chain can begin.
    pub const ALL: [Self; 8] = [
        Self::Row(Side::Rows),
        Self::Row(Side::Columns),
        Self::Mean(Side::Rows),
        Self::Mean(Side::Columns),
        Self::Squares(Side::Rows),
        Self::Squares(Side::Columns),
        Self::Prediction(Held::Validation),
        Self::Prediction(Held::Test),
    ];

    /// How many of [`Quantity::ALL`] are a sample.
    pub const SAMPLE: usize = 2;

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Row(Side::Rows) => "row",
            Self::Row(Side::Columns) => "column",
            Self::Mean(Side::Rows) => "row_mean",
            Self::Mean(Side::Columns) => "column_mean",
            Self::Squares(Side::Rows) => "row_squares",
            Self::Squares(Side::Columns) => "column_squares",
            Self::Prediction(Held::Validation) => "validation",
            Self::Prediction(Held::Test) => "test",
        }
    }
}
