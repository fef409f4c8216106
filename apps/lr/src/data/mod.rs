//! Data sets: rows of sparse features with a label each.
//!
//! Start at [`Dataset`]. [`Source`] and [`HeldOut`] define where its rows come from, [`Reading`] how they are
//! transformed. This module deliberately has no keys and no batches.

mod generate;
mod libsvm;
mod line;
mod names;
mod open;
mod read;
mod rows;
mod table;

pub use generate::{Generator, GeneratorError};
pub use line::{Normalize, Transform};
pub use names::{Hashed, Naming, slot};
pub use open::{HeldOut, Source};
pub use read::{DataError, Format, HASH_BITS, Reading, unlabelled};
pub use rows::{FEATURES_MAX, Row, Rows};
pub use table::{Columns, Header};

use intendant_core::random::{stream, unit};
use intendant_task::Split;

/// Maximum number of bits of a hash.
pub const HASH_BITS_MAX: u8 = 31;

/// Labelled rows to train, to validate and to test on.
#[derive(Clone, Debug)]
pub struct Dataset {
    features: u32,
    naming: Naming,
    header: Option<Header>,
    train: Rows,
    valid: Rows,
    test: Rows,
    /// Number of training rows that have each feature.
    uses: Vec<u32>,
    /// Hashes of the training rows.
    hashes: Vec<u64>,
}

impl Dataset {
    /// A data set of rows.
    ///
    /// # Panics
    /// If a row has a feature beyond `features`, or there are more than [`FEATURES_MAX`].
    pub fn new(features: u32, naming: Naming, train: Rows, valid: Rows, test: Rows) -> Self {
        assert!(features <= FEATURES_MAX, "{features} features");
        let mut data =
            Self { features, naming, header: None, train, valid, test, uses: Vec::new(), hashes: Vec::new() };
        data.measure();
        data
    }

    /// Moves randomly chosen training rows to validation or test, each with probability `fraction`; the seed
    /// determines the choice. They replace the rows there.
    ///
    /// # Errors
    /// If nothing is left to train on, or nothing is held out.
    pub fn hold_out(&mut self, split: Split, fraction: f64, seed: u64) -> Result<(), DataError> {
        let name = match split {
            Split::Valid => VALID,
            Split::Test => TEST,
        };
        let seed = stream(seed, &[name]);
        let rows = self.train.len();
        let chosen = self.train.extract(|index| unit(stream(seed, &[index as u64])) < fraction);
        let is_useless = chosen.is_empty() || self.train.is_empty();
        match split {
            Split::Valid => self.valid = chosen,
            Split::Test => self.test = chosen,
        }
        if is_useless {
            return Err(DataError::HoldOut { fraction, rows });
        }
        self.measure();
        Ok(())
    }

    /// Adds features without rows, up to `features`.
    ///
    /// # Panics
    /// If there are more than [`FEATURES_MAX`].
    pub fn widen(&mut self, features: u32) {
        assert!(features <= FEATURES_MAX, "{features} features");
        self.features = self.features.max(features);
        self.measure();
    }

    fn measure(&mut self) {
        self.uses = vec![0; self.features as usize];
        for row in self.train.iter() {
            row.features.iter().for_each(|feature| self.uses[*feature as usize] += 1);
        }
        self.hashes = self.train.iter().map(|row| row.hash()).collect();
        let inside = |row: Row<'_>| row.features.last().is_none_or(|last| *last < self.features);
        assert!(
            [&self.valid, &self.test].into_iter().all(|rows| rows.iter().all(inside)),
            "a feature beyond the last"
        );
    }

    /// Number of features.
    pub fn features(&self) -> u32 {
        self.features
    }

    /// The names of features.
    pub fn naming(&self) -> &Naming {
        &self.naming
    }

    /// The columns of the table of the training rows; without one, those of another table that was read.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// The rows to learn from.
    pub fn train(&self) -> &Rows {
        &self.train
    }

    /// The rows to validate on; may be empty.
    pub fn valid(&self) -> &Rows {
        &self.valid
    }

    /// The rows to test on; may be empty.
    pub fn test(&self) -> &Rows {
        &self.test
    }

    /// Number of training rows that have each feature.
    pub fn uses(&self) -> &[u32] {
        &self.uses
    }

    /// A hash of training row `index`.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn hash(&self, index: usize) -> u64 {
        self.hashes[index]
    }

    /// How many test rows have features that no training row has.
    pub fn unseen(&self) -> usize {
        let unseen = |row: &Row<'_>| row.features.iter().any(|feature| self.uses[*feature as usize] == 0);
        self.test.iter().filter(unseen).count()
    }

    /// A hash of the number of features and of all rows, their order and their splits.
    pub fn digest(&self) -> u64 {
        let splits = [&self.train, &self.valid, &self.test];
        splits
            .iter()
            .fold(stream(DIGEST, &[self.features.into()]), |digest, rows| stream(digest, &[rows.digest()]))
    }
}

/// The streams of random numbers that choose rows to hold out.
const VALID: u64 = 0x76_616c_6964;
const TEST: u64 = 0x7465_7374;

/// The initial value of [`Dataset::digest`].
const DIGEST: u64 = 0x6c72_2064_6174_6121;

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
