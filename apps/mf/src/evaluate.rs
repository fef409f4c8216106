//! Prediction errors on held-out entries: their root mean square and their mean absolute value.

use crate::data::Entry;
use crate::model::Shape;
use intendant_core::{Element, Key};
use intendant_task::{Evaluation, Reduction};
use std::ops::Range;

/// One worker's share of the evaluation.
#[derive(Debug)]
pub struct Errors {
    shape: Shape,
    mean: f64,
    entries: Vec<Entry>,
    /// The key of column 0, which is the number of rows of the matrix.
    first_column: u64,
    keys: Vec<Key>,
    squares: f64,
    sizes: f64,
}

impl Errors {
    pub(crate) fn new(shape: Shape, mean: f64, first_column: u64, entries: &[Entry]) -> Self {
        let row = |e: &Entry| Key(e.row.into());
        let column = |e: &Entry| Key(first_column + u64::from(e.column));
        let mut keys: Vec<Key> = entries.iter().map(row).chain(entries.iter().map(column)).collect();
        keys.sort_unstable();
        keys.dedup();
        Self { shape, mean, entries: entries.to_vec(), first_column, keys, squares: 0.0, sizes: 0.0 }
    }
}

impl<E: Element> Evaluation<E> for Errors {
    fn keys(&self) -> &[Key] {
        &self.keys
    }

    fn take(&mut self, values: &[E]) {
        let len = self.shape.len();
        for entry in &self.entries {
            let value = |key: u64| {
                let at = self.keys.partition_point(|k| k.0 < key);
                &values[at * len..][..len]
            };
            let (row, column) = (value(entry.row.into()), value(self.first_column + u64::from(entry.column)));
            let error = entry.value - self.shape.predict(self.mean, row, column).to_f64();
            self.squares += error * error;
            self.sizes += error.abs();
        }
    }

    fn range(&self) -> Range<u64> {
        0..0
    }

    fn part(&mut self, _keys: &[Key], _values: &[E]) {}

    fn finish(self: Box<Self>) -> Reduction {
        let mut reduction = Reduction::default();
        reduction.add("quality.rmse^2", self.squares);
        reduction.add("quality.mae", self.sizes);
        reduction.add("quality.count", self.entries.len() as f64);
        reduction
    }
}
