//! A batch: its rows, and the keys that they need.

use crate::data::{Dataset, Row};
use crate::proximal::BlockBatch;
use intendant_core::Key;

/// A batch, prepared before it is trained.
#[derive(Clone, Debug)]
pub enum Batch {
    /// Of rows.
    Rows(RowsBatch),
    /// Of a block of features, for all rows of a worker.
    Block(BlockBatch),
}

/// A batch of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct RowsBatch {
    pub(crate) labels: Vec<bool>,
    /// The ends of the rows among places and values.
    pub(crate) ends: Vec<u32>,
    /// Positions of features among the batch's keys.
    pub(crate) places: Vec<u32>,
    pub(crate) values: Vec<f32>,
    /// Of each feature among the keys, the part of its training rows that is in this batch.
    pub(crate) passes: Vec<f64>,
    /// Whether the last key is that of the intercept.
    pub(crate) intercept: bool,
    /// From 0.
    pub(crate) epoch: u32,
}

impl RowsBatch {
    /// The batch of some training rows, and its distinct keys, ascending. The key of a feature is its number;
    /// that of the intercept follows the last feature.
    pub(crate) fn new<'a>(
        data: &Dataset,
        rows: impl Iterator<Item = Row<'a>> + Clone,
        (intercept, epoch): (bool, u32),
    ) -> (Self, Vec<Key>) {
        let mut features: Vec<u32> = rows.clone().flat_map(|row| row.features.iter().copied()).collect();
        let entries = features.len();
        features.sort_unstable();
        let mut passes = Vec::new();
        for of_one in features.chunk_by(|a, b| a == b) {
            passes.push(of_one.len() as f64 / f64::from(data.uses()[of_one[0] as usize]));
        }
        features.dedup();
        let mut batch = Self {
            labels: Vec::new(),
            ends: Vec::new(),
            places: Vec::with_capacity(entries),
            values: Vec::with_capacity(entries),
            passes,
            intercept,
            epoch,
        };
        for row in rows {
            let mut from = 0;
            for (feature, value) in row.entries() {
                // Features of a row ascend.
                from += features[from..].partition_point(|other| *other < feature);
                batch.places.push(from as u32);
                batch.values.push(value);
            }
            batch.labels.push(row.label);
            batch.ends.push(batch.places.len() as u32);
        }
        let keys = features.iter().map(|feature| Key(u64::from(*feature)));
        let keys = keys.chain(intercept.then_some(Key(data.features().into())));
        (batch, keys.collect())
    }

    /// Label, positions of features and their values of each row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (bool, &[u32], &[f32])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|end| *end as usize));
        let ranges = starts.zip(&self.ends).map(|(start, end)| start..*end as usize);
        let row = |(label, range): (&bool, std::ops::Range<usize>)| {
            (*label, &self.places[range.clone()], &self.values[range])
        };
        self.labels.iter().zip(ranges).map(row)
    }
}
