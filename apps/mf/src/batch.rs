//! A batch: its entries, and the keys that they need.

use crate::data::{Dataset, Entry};
use intendant_core::Key;

/// An entry of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Example {
    /// Position of the row among the batch's keys.
    pub(crate) row: u32,
    /// Training entries of the row.
    pub(crate) row_uses: u32,
    /// Value of the entry.
    pub(crate) value: f64,
}

/// Entries of one column that are trained one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Position of the column among the batch's keys.
    pub(crate) column: u32,
    /// Training entries of the column.
    pub(crate) column_uses: u32,
    /// The end of the run among the batch's examples.
    pub(crate) end: usize,
}

/// A batch, prepared before it is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Entries in the order in which they are trained.
    pub(crate) examples: Vec<Example>,
    /// Their columns.
    pub(crate) runs: Vec<Run>,
    /// Number of rows among the keys; they come first.
    pub(crate) rows: usize,
}

/// Where a batch's keys of rows and columns are among all of them.
enum Places {
    /// Each entry has a row of its own, and they share a column.
    InOrder,
    /// The distinct rows and columns, ascending.
    Sorted { rows: Vec<u32>, columns: Vec<u32> },
}

impl Batch {
    /// The batch of some training entries, and its distinct keys: rows first. The key of column `c` is the
    /// number of rows and `c`. `of_one_column` says that the entries are different cells of one column.
    pub(crate) fn new(data: &Dataset, entries: &[u32], of_one_column: bool) -> (Self, Vec<Key>) {
        let entries: Vec<Entry> = entries.iter().map(|entry| data.train()[*entry as usize]).collect();
        let first_column = data.rows().len() as u64;
        let row_key = |row: u32| Key(u64::from(row));
        let column_key = |column: u32| Key(first_column + u64::from(column));
        let mut keys = Vec::with_capacity(entries.len() + 1);
        let places = if of_one_column {
            keys.extend(entries.iter().map(|entry| row_key(entry.row)));
            keys.extend(entries.first().map(|entry| column_key(entry.column)));
            Places::InOrder
        } else {
            let rows = distinct(entries.iter().map(|e| e.row).collect());
            let columns = distinct(entries.iter().map(|e| e.column).collect());
            keys.extend(rows.iter().map(|row| row_key(*row)));
            keys.extend(columns.iter().map(|column| column_key(*column)));
            Places::Sorted { rows, columns }
        };
        let rows = match &places {
            Places::InOrder => entries.len(),
            Places::Sorted { rows, .. } => rows.len(),
        };
        let place = |sorted: &[u32], number: u32| sorted.partition_point(|n| *n < number) as u32;
        let example = |(at, entry): (u32, &Entry)| Example {
            row: match &places {
                Places::InOrder => at,
                Places::Sorted { rows, .. } => place(rows, entry.row),
            },
            row_uses: data.row_uses()[entry.row as usize],
            value: entry.value,
        };
        let examples = (0..).zip(&entries).map(example).collect();
        let mut end = 0;
        let run = |run: &[Entry]| {
            end += run.len();
            let column = match &places {
                Places::InOrder => 0,
                Places::Sorted { columns, .. } => place(columns, run[0].column),
            };
            let column_uses = data.column_uses()[run[0].column as usize];
            Run { column: rows as u32 + column, column_uses, end }
        };
        let runs = entries.chunk_by(|a, b| a.column == b.column).map(run).collect();
        (Self { examples, runs, rows }, keys)
    }
}

fn distinct(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
