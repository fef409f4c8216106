//! A batch: its entries, and the keys that they need.

use crate::data::{Dataset, Entry};
use intendant_core::Key;

/// An entry of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Example {
    /// Position of the row among the batch's keys.
    pub(crate) row: u32,
    /// Position of the column among the batch's columns.
    pub(crate) column: u32,
    /// Value of the entry.
    pub(crate) value: f64,
}

/// A batch, prepared before it is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Entries in the order in which they are trained.
    pub(crate) examples: Vec<Example>,
    /// Number of rows among the keys; they come first.
    pub(crate) rows: usize,
    /// Training entries of each key.
    pub(crate) uses: Vec<u32>,
}

impl Batch {
    /// The batch of some training entries, and its distinct keys: rows first, each side ascending. The key of
    /// column `c` is the number of rows and `c`.
    pub(crate) fn new(data: &Dataset, entries: &[u32]) -> (Self, Vec<Key>) {
        let entries: Vec<Entry> = entries.iter().map(|entry| data.train()[*entry as usize]).collect();
        let rows = distinct(entries.iter().map(|e| e.row).collect());
        let columns = distinct(entries.iter().map(|e| e.column).collect());
        let place = |sorted: &[u32], number: u32| sorted.partition_point(|n| *n < number) as u32;
        let example = |e: &Entry| Example {
            row: place(&rows, e.row),
            column: place(&columns, e.column),
            value: e.value,
        };
        let examples = entries.iter().map(example).collect();
        let first_column = data.rows().len() as u64;
        let keys = rows.iter().map(|row| Key(u64::from(*row)));
        let keys = keys.chain(columns.iter().map(|column| Key(first_column + u64::from(*column))));
        let uses = rows.iter().map(|row| data.row_uses()[*row as usize]);
        let uses = uses.chain(columns.iter().map(|column| data.column_uses()[*column as usize]));
        (Self { examples, rows: rows.len(), uses: uses.collect() }, keys.collect())
    }
}

fn distinct(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
