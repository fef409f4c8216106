//! The rows of a worker by columns: for each feature, the rows that have it.

use crate::data::Dataset;
use intendant_core::Key;
use intendant_core::random::mix;
use std::ops::Range;

/// The data that a worker needs.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) labels: Vec<bool>,
    /// The last block is that of the intercept, if there is one.
    pub(super) blocks: Vec<Block>,
    /// The key of the intercept.
    pub(super) intercept: Key,
    /// One more than the last key.
    pub(super) keys_end: usize,
}

/// The columns of a block.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// Keys of the features that the worker's rows have, ascending.
    pub(super) keys: Vec<Key>,
    /// For each key, the end of its column.
    ends: Vec<usize>,
    rows: Vec<u32>,
    values: Vec<f32>,
    /// For each key, a bound of the second derivative of the loss with respect to the weights of the block.
    curvatures: Vec<f64>,
}

/// A column: the rows that have a feature, by their places among the worker's rows, and the values of the
/// feature there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column<'a> {
    pub(super) rows: &'a [u32],
    values: &'a [f32],
    pub(super) curvature: f64,
}

impl Column<'_> {
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, f64)> {
        self.rows.iter().zip(self.values).map(|(row, value)| (*row as usize, f64::from(*value)))
    }
}

impl Block {
    /// The keys and their columns.
    pub(super) fn columns(&self) -> impl Iterator<Item = (Key, Column<'_>)> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(&self.ends).map(|(start, end)| start..*end);
        self.keys.iter().zip(ranges).zip(&self.curvatures).map(|((key, range), curvature)| {
            let (rows, values) = (&self.rows[range.clone()], &self.values[range]);
            (*key, Column { rows, values, curvature: *curvature })
        })
    }
}

/// The block of a feature. A hash separates features with neighbouring numbers: they are often categories of
/// the same field, and depend on each other.
fn block_of(feature: u32, blocks: u32) -> usize {
    (mix(feature.into()) % u64::from(blocks)) as usize
}

impl Columns {
    pub(super) fn new(data: &Dataset, rows: Range<usize>, blocks: u32, intercept: bool) -> Self {
        let mut entries: Vec<Vec<(u32, u32, f32)>> = vec![Vec::new(); blocks as usize];
        let mut labels = Vec::with_capacity(rows.len());
        for (place, row) in (0..).zip(rows.map(|row| data.train().row(row))) {
            labels.push(row.label);
            for (feature, value) in row.entries() {
                entries[block_of(feature, blocks)].push((feature, place, value));
            }
        }
        if intercept {
            let feature = data.features();
            entries.push((0..labels.len() as u32).map(|place| (feature, place, 1.0)).collect());
        }
        let mut norms = vec![0.0; labels.len()];
        let blocks = entries.into_iter().map(|entries| Block::new(entries, &mut norms)).collect();
        let features = data.features();
        Self { labels, blocks, intercept: Key(features.into()), keys_end: features as usize + 1 }
    }

    /// The keys of all blocks, block by block.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        self.blocks.iter().flat_map(|block| block.keys.iter().copied())
    }
}

impl Block {
    /// The block of these entries: features, places of rows, and values. `norms` has a number per row.
    fn new(mut entries: Vec<(u32, u32, f32)>, norms: &mut [f64]) -> Self {
        entries.sort_unstable_by_key(|(feature, place, _)| (*feature, *place));
        norms.fill(0.0);
        for (_, place, value) in &entries {
            norms[*place as usize] += f64::from(value.abs());
        }
        let mut block = Self::default();
        for column in entries.chunk_by(|a, b| a.0 == b.0) {
            block.keys.push(Key(column[0].0.into()));
            block.rows.extend(column.iter().map(|(_, place, _)| *place));
            block.values.extend(column.iter().map(|(.., value)| *value));
            block.ends.push(block.rows.len());
            // The second derivative of a row's loss with respect to its score is at most a quarter. That with
            // respect to all weights of the block together is bounded by a diagonal matrix of these sums.
            let bound = column.iter().map(|(_, place, x)| f64::from(x.abs()) * norms[*place as usize]);
            block.curvatures.push(bound.sum::<f64>() / 4.0);
        }
        block
    }
}
