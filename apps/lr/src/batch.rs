//! A batch: its rows, and the keys that they need.

use crate::data::{Dataset, Row};
use crate::proximal::BlockBatch;
use intendant_core::Key;
use intendant_task::Ranking;

/// A batch, prepared before it is trained.
#[derive(Clone, Debug)]
pub enum Batch {
    /// A batch of rows.
    Rows(RowsBatch),
    /// A batch of a block of features, for all rows of a worker.
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
    /// For each feature among the keys, the part of its training rows that is in this batch.
    pub(crate) passes: Vec<f64>,
    /// Whether the last key is that of the intercept.
    pub(crate) intercept: bool,
    /// The epoch, from 0.
    pub(crate) epoch: u32,
}

impl RowsBatch {
    /// The batch of some training rows, and its distinct keys in ascending order. The key of a feature is its
    /// number; the key of the intercept follows the last feature.
    pub(crate) fn new<'a>(
        data: &Dataset,
        ranking: &Ranking,
        rows: impl Iterator<Item = Row<'a>> + Clone,
        (intercept, epoch): (bool, u32),
    ) -> (Self, Vec<Key>) {
        let entries = rows.clone().map(|row| row.features.len()).sum();
        let mut batch = Self {
            labels: rows.clone().map(|row| row.label).collect(),
            ends: Vec::new(),
            places: Vec::with_capacity(entries),
            values: Vec::with_capacity(entries),
            passes: Vec::new(),
            intercept,
            epoch,
        };
        let features = rows.clone().flat_map(|row| row.features.iter().copied());
        let keys = ranking.rank(features, |ranks| {
            let uses = ranks.items().iter().map(|feature| data.uses()[*feature as usize]);
            let pass = |(here, all): (&u32, u32)| f64::from(*here) / f64::from(all);
            batch.passes = ranks.occurrences().iter().zip(uses).map(pass).collect();
            for row in rows {
                batch.places.extend(row.features.iter().map(|feature| ranks.place(*feature)));
                batch.values.extend_from_slice(row.values);
                batch.ends.push(batch.places.len() as u32);
            }
            let mut keys = Vec::with_capacity(ranks.items().len() + usize::from(intercept));
            keys.extend(ranks.items().iter().map(|feature| Key(u64::from(*feature))));
            keys.extend(intercept.then_some(Key(data.features().into())));
            keys
        });
        (batch, keys)
    }

    /// The label, the positions of features and their values, for each row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (bool, &[u32], &[f32])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|end| *end as usize));
        let ranges = starts.zip(&self.ends).map(|(start, end)| start..*end as usize);
        let row = |(label, range): (&bool, std::ops::Range<usize>)| {
            (*label, &self.places[range.clone()], &self.values[range])
        };
        self.labels.iter().zip(ranges).map(row)
    }
}
