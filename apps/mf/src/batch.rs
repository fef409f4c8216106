//! A batch: its entries, and the keys that they need.

use crate::data::Dataset;
use intendant_core::Key;
use smallvec::SmallVec;

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

/// A batch, prepared before it is trained. The data of a single entry is stored inside the struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Entries in the order in which they are trained.
    pub(crate) examples: SmallVec<[Example; 1]>,
    /// Their columns.
    pub(crate) runs: SmallVec<[Run; 1]>,
    /// Number of rows among the keys; they come first.
    pub(crate) rows: usize,
}

/// A batch that is being put together, entry by entry.
pub(crate) struct Builder<'a> {
    data: &'a Dataset,
    examples: SmallVec<[Example; 1]>,
    /// The runs; `column` holds the number of the column instead of its position.
    runs: SmallVec<[Run; 1]>,
    /// Keys of the rows of the entries.
    keys: Vec<Key>,
}

impl<'a> Builder<'a> {
    /// Reserves memory for `entries` entries.
    pub(crate) fn new(data: &'a Dataset, entries: usize) -> Self {
        let runs = RUNS.min(entries);
        Self {
            data,
            examples: SmallVec::with_capacity(entries),
            runs: SmallVec::with_capacity(runs),
            keys: Vec::with_capacity(entries + runs),
        }
    }

    /// Appends an entry.
    #[inline]
    pub(crate) fn push(&mut self, row: u32, column: u32, value: f64) {
        let at = self.examples.len();
        self.examples.push(Example { row: at as u32, row_uses: self.data.row_uses()[row as usize], value });
        self.keys.push(Key(row.into()));
        match self.runs.last_mut().filter(|run| run.column == column) {
            Some(run) => run.end = at + 1,
            None => {
                let column_uses = self.data.column_uses()[column as usize];
                self.runs.push(Run { column, column_uses, end: at + 1 });
            }
        }
    }

    /// The batch and its distinct keys: rows first, then columns, each in ascending order. The key of column
    /// `c` is the number of rows plus `c`.
    pub(crate) fn distinct(mut self) -> (Batch, Vec<Key>) {
        let rows = distinct(self.keys.clone());
        let columns = distinct(self.runs.iter().map(|run| column_key(self.data, run.column)).collect());
        let place = |sorted: &[Key], key: Key| sorted.partition_point(|other| *other < key) as u32;
        for (example, key) in self.examples.iter_mut().zip(&self.keys) {
            example.row = place(&rows, *key);
        }
        for run in &mut self.runs {
            run.column = rows.len() as u32 + place(&columns, column_key(self.data, run.column));
        }
        let batch = Batch { examples: self.examples, runs: self.runs, rows: rows.len() };
        (batch, [rows, columns].concat())
    }

    /// The batch with one key for the row of each entry, in the order of the entries, and one key for each
    /// run of entries of one column. The keys are distinct if the entries are different cells of one column.
    pub(crate) fn by_run(mut self) -> (Batch, Vec<Key>) {
        for run in &mut self.runs {
            let key = column_key(self.data, run.column);
            run.column = self.keys.len() as u32;
            self.keys.push(key);
        }
        let rows = self.examples.len();
        (Batch { examples: self.examples, runs: self.runs, rows }, self.keys)
    }
}

/// The number of runs for which memory is reserved; it grows for batches with more.
const RUNS: usize = 8;

fn column_key(data: &Dataset, column: u32) -> Key {
    Key(data.rows().len() as u64 + u64::from(column))
}

fn distinct(mut keys: Vec<Key>) -> Vec<Key> {
    keys.sort_unstable();
    keys.dedup();
    keys
}
