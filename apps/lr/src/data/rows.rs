//! Rows of sparse features, one after the other in memory.

use intendant_core::random::{mix, stream};

/// Maximum number of features. The last number of 32 bits is left for the intercept.
pub const FEATURES_MAX: u32 = u32::MAX - 2;

/// A row: a label and the features that are not zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a> {
    /// Whether the label is the positive one.
    pub label: bool,
    /// Numbers of the features, ascending, from 0.
    pub features: &'a [u32],
    /// Their values, none of them zero.
    pub values: &'a [f32],
}

impl Row<'_> {
    /// The features and their values.
    pub fn entries(&self) -> impl Iterator<Item = (u32, f32)> {
        self.features.iter().copied().zip(self.values.iter().copied())
    }

    /// A hash of the row.
    pub(crate) fn hash(&self) -> u64 {
        let label = mix(self.label.into());
        self.entries().fold(label, |hash, (feature, value)| {
            mix(hash ^ (u64::from(feature) << 32 | u64::from(value.to_bits())))
        })
    }
}

/// Rows of sparse features.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    labels: Vec<bool>,
    /// The ends of the rows among features and values.
    ends: Vec<usize>,
    features: Vec<u32>,
    values: Vec<f32>,
}

impl Rows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Number of features of all rows that are not zero.
    pub fn entries(&self) -> usize {
        self.features.len()
    }

    /// Number of rows with the positive label.
    pub fn positives(&self) -> usize {
        self.labels.iter().filter(|label| **label).count()
    }

    /// Row `index`.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, index: usize) -> Row<'_> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        let range = start..self.ends[index];
        Row {
            label: self.labels[index],
            features: &self.features[range.clone()],
            values: &self.values[range],
        }
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.len()).map(|index| self.row(index))
    }

    /// Appends a row. Features that are zero are left out.
    ///
    /// # Panics
    /// If features do not ascend.
    pub fn push(&mut self, label: bool, entries: impl IntoIterator<Item = (u32, f32)>) {
        let start = self.features.len();
        for (feature, value) in entries {
            if value != 0.0 {
                self.features.push(feature);
                self.values.push(value);
            }
        }
        assert!(self.features[start..].is_sorted_by(|a, b| a < b), "features ascend");
        self.labels.push(label);
        self.ends.push(self.features.len());
    }

    /// Removes all rows.
    pub(super) fn clear(&mut self) {
        self.labels.clear();
        self.ends.clear();
        self.features.clear();
        self.values.clear();
    }

    /// Moves the rows for which `moves` is true to another set; both keep the order.
    pub(super) fn extract(&mut self, moves: impl Fn(usize) -> bool) -> Self {
        let (mut kept, mut moved) = (Self::default(), Self::default());
        for (index, row) in self.iter().enumerate() {
            let to = if moves(index) { &mut moved } else { &mut kept };
            to.push(row.label, row.entries());
        }
        *self = kept;
        moved
    }

    /// A hash of all rows and of their order.
    pub(super) fn digest(&self) -> u64 {
        self.iter().fold(self.len() as u64, |digest, row| stream(digest, &[row.hash()]))
    }
}
