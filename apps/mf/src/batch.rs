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

impl Batch {
    /// The batch of some training entries, and its distinct keys: rows first, each side ascending. The key of
    /// column `c` is the number of rows and `c`.
    pub(crate) fn new(data: &Dataset, entries: &[Entry]) -> (Self, Vec<Key>) {
        let rows = distinct(entries.iter().map(|e| e.row).collect());
        let columns = distinct(entries.iter().map(|e| e.column).collect());
        let place = |sorted: &[u32], number: u32| sorted.partition_point(|n| *n < number) as u32;
        let example = |entry: &Entry| Example {
            row: place(&rows, entry.row),
            row_uses: data.row_uses()[entry.row as usize],
            value: entry.value,
        };
        let mut end = 0;
        let run = |run: &[Entry]| {
            let column = run[0].column;
            end += run.len();
            Run {
                column: rows.len() as u32 + place(&columns, column),
                column_uses: data.column_uses()[column as usize],
                end,
            }
        };
        let runs = entries.chunk_by(|a, b| a.column == b.column).map(run).collect();
        let examples = entries.iter().map(example).collect();
        let keys = rows.iter().map(|row| Key(u64::from(*row)));
        let keys = keys.chain(columns.iter().map(|column| column_key(data, *column)));
        (Self { examples, runs, rows: rows.len() }, keys.collect())
    }

    /// As [`Batch::new`], with a key for the row of each entry, in the order of the entries, and a key for
    /// each run of entries of one column: the keys are distinct if the entries are different cells of one
    /// column.
    pub(crate) fn by_run(data: &Dataset, entries: &[Entry]) -> (Self, Vec<Key>) {
        let rows = entries.len();
        let example = |(row, entry): (u32, &Entry)| Example {
            row,
            row_uses: data.row_uses()[entry.row as usize],
            value: entry.value,
        };
        let examples = (0..).zip(entries).map(example).collect();
        let mut keys = Vec::with_capacity(rows + RUNS);
        keys.extend(entries.iter().map(|entry| Key(u64::from(entry.row))));
        let mut runs = Vec::with_capacity(RUNS);
        let mut end = 0;
        for run in entries.chunk_by(|a, b| a.column == b.column) {
            let column = run[0].column;
            end += run.len();
            runs.push(Run {
                column: keys.len() as u32,
                column_uses: data.column_uses()[column as usize],
                end,
            });
            keys.push(column_key(data, column));
        }
        (Self { examples, runs, rows }, keys)
    }
}

/// Memory for so many runs is reserved; it grows for batches with more.
const RUNS: usize = 8;

fn column_key(data: &Dataset, column: u32) -> Key {
    Key(data.rows().len() as u64 + u64::from(column))
}

fn distinct(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
