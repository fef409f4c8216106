//! A matrix of which some cells are known, for training, validation and test.

use super::entry::{ENTRIES_MAX, Entry};
use super::error::DataError;
use super::ids::{Ids, Numbering};
use super::read::{self, Content, Origin};
use intendant_core::random::{stream, unit};
use intendant_task::Split;
use std::path::Path;

/// A matrix of which some cells are known.
#[derive(Clone, Debug)]
pub struct Dataset {
    rows: Ids,
    columns: Ids,
    train: Vec<Entry>,
    valid: Vec<Entry>,
    test: Vec<Entry>,
    row_uses: Vec<u32>,
    column_uses: Vec<u32>,
    mean: f64,
    origin: Origin,
}

impl Dataset {
    /// A matrix from numbered entries.
    ///
    /// # Panics
    /// If an entry is outside of the matrix, or there are more than [`ENTRIES_MAX`].
    pub fn new(rows: Ids, columns: Ids, train: Vec<Entry>, test: Vec<Entry>) -> Self {
        Self::from(rows, columns, train, test, Origin::Table)
    }

    fn from(rows: Ids, columns: Ids, train: Vec<Entry>, test: Vec<Entry>, origin: Origin) -> Self {
        let mut data = Self {
            rows,
            columns,
            train,
            valid: Vec::new(),
            test,
            row_uses: Vec::new(),
            column_uses: Vec::new(),
            mean: 0.0,
            origin,
        };
        data.measure();
        data
    }

    /// Reads a file: MatrixMarket, or a table of row, column and value; all entries are for training.
    ///
    /// # Errors
    /// If it cannot be read or is not in the format; the message names file and line.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let Content { rows, columns, entries, origin } = read::first(path)?;
        Ok(Self::from(rows, columns, entries, Vec::new(), origin))
    }

    /// Replaces the validation or test entries by those of a file of the same kind. Rows and columns that are
    /// new are added.
    ///
    /// # Errors
    /// As [`Dataset::read`]; also if a MatrixMarket file has more rows or columns than this matrix.
    pub fn held_out_from(&mut self, split: Split, path: &Path) -> Result<(), DataError> {
        let entries = self.train.len();
        let rows = Numbering::further(self.rows.clone(), entries);
        let columns = Numbering::further(self.columns.clone(), entries);
        let read = read::content(path, rows, columns)?;
        let file = || path.display().to_string();
        match (self.origin, read.origin) {
            (Origin::Table, Origin::Table) => (self.rows, self.columns) = (read.rows, read.columns),
            (Origin::Market { .. }, Origin::Market { .. }) => {
                for (what, here, there) in [
                    ("rows", read.rows.len(), self.rows.len()),
                    ("columns", read.columns.len(), self.columns.len()),
                ] {
                    if here > there {
                        let what = format!("{here} {what}, but the training data has {there}");
                        return Err(DataError::TooMany { file: file(), what });
                    }
                }
            }
            (_, found) => {
                return Err(DataError::OtherFormat { file: file(), market: found != Origin::Table });
            }
        }
        self.set(split, read.entries);
        Ok(())
    }

    /// Moves known cells from training to validation or test, each with probability `fraction`; the seed
    /// determines which. They replace the entries there. Entries of one cell stay together, and so do those
    /// of a cell and of its mirror image in a symmetric matrix.
    ///
    /// # Errors
    /// If nothing is left to train on, or nothing is held out.
    pub fn hold_out(&mut self, split: Split, fraction: f64, seed: u64) -> Result<(), DataError> {
        let seed = stream(seed, &[hold_out(split)]);
        let symmetric = self.origin == Origin::Market { symmetric: true };
        let held = |entry: &mut Entry| {
            let (row, column) = (u64::from(entry.row), u64::from(entry.column));
            let cell = if symmetric { [row.min(column), row.max(column)] } else { [row, column] };
            unit(stream(seed, &cell)) < fraction
        };
        let entries = self.train.len();
        let chosen: Vec<Entry> = self.train.extract_if(.., held).collect();
        if chosen.is_empty() || self.train.is_empty() {
            return Err(DataError::HoldOut { fraction, entries });
        }
        self.set(split, chosen);
        Ok(())
    }

    fn set(&mut self, split: Split, entries: Vec<Entry>) {
        match split {
            Split::Valid => self.valid = entries,
            Split::Test => self.test = entries,
        }
        self.measure();
    }

    /// Counts uses, and sorts the held-out entries by row, so that the workers' shares of them have few rows
    /// in common.
    fn measure(&mut self) {
        let splits = [&self.train, &self.valid, &self.test];
        assert!(splits.iter().all(|split| split.len() <= ENTRIES_MAX), "too many entries");
        let inside =
            |e: &Entry| (e.row as usize) < self.rows.len() && (e.column as usize) < self.columns.len();
        if let Some(entry) = splits.into_iter().flatten().find(|e| !inside(e)) {
            panic!("{entry:?} is outside of {} rows and {} columns", self.rows.len(), self.columns.len());
        }
        let (mut rows, mut columns, mut sum) = (vec![0; self.rows.len()], vec![0; self.columns.len()], 0.0);
        for entry in &self.train {
            rows[entry.row as usize] += 1;
            columns[entry.column as usize] += 1;
            sum += entry.value;
        }
        (self.row_uses, self.column_uses) = (rows, columns);
        self.mean = if self.train.is_empty() { 0.0 } else { sum / self.train.len() as f64 };
        for split in [&mut self.valid, &mut self.test] {
            split.sort_by_key(|e| (e.row, e.column));
        }
    }

    /// The rows.
    pub fn rows(&self) -> &Ids {
        &self.rows
    }

    /// The columns.
    pub fn columns(&self) -> &Ids {
        &self.columns
    }

    /// The entries to learn from.
    pub fn train(&self) -> &[Entry] {
        &self.train
    }

    /// The entries to validate on, row by row; may be empty.
    pub fn valid(&self) -> &[Entry] {
        &self.valid
    }

    /// The entries to test on, row by row; may be empty.
    pub fn test(&self) -> &[Entry] {
        &self.test
    }

    /// Training entries of each row.
    pub fn row_uses(&self) -> &[u32] {
        &self.row_uses
    }

    /// Training entries of each column.
    pub fn column_uses(&self) -> &[u32] {
        &self.column_uses
    }

    /// Mean value of the training entries.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// How many test entries have a row or a column without training entries.
    pub fn unseen(&self) -> usize {
        let unseen =
            |e: &&Entry| self.row_uses[e.row as usize] == 0 || self.column_uses[e.column as usize] == 0;
        self.test.iter().filter(unseen).count()
    }

    /// A hash of identifiers, entries, their order and their splits.
    pub fn digest(&self) -> u64 {
        let mut digest = DIGEST;
        for ids in [&self.rows, &self.columns] {
            digest = stream(digest, &[ids.len() as u64]);
            match ids {
                Ids::Numbers { first, .. } => digest = stream(digest, &[u64::from(*first)]),
                Ids::Names(names) => digest = names.digest(digest),
            }
        }
        // Without validation entries, the digest is that of a matrix without a validation split.
        let valid = Some(&self.valid).filter(|valid| !valid.is_empty());
        for split in [Some(&self.train), Some(&self.test), valid].into_iter().flatten() {
            digest = stream(digest, &[split.len() as u64]);
            for entry in split {
                digest = stream(digest, &[entry.row.into(), entry.column.into(), entry.value.to_bits()]);
            }
        }
        digest
    }
}

/// The stream of random numbers of [`Dataset::hold_out`].
const fn hold_out(split: Split) -> u64 {
    match split {
        Split::Valid => 0x76_616c_6964,
        Split::Test => 0x7465_7374,
    }
}

/// The initial value of [`Dataset::digest`].
const DIGEST: u64 = 0x6d66_2064_6174_6121;

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: u32) -> Ids {
        Ids::Numbers { first: 0, count }
    }

    fn entry(row: u32, column: u32, value: f64) -> Entry {
        Entry { row, column, value }
    }

    fn square(origin: Origin) -> Dataset {
        let cells = (0..40).flat_map(|row| (0..40).map(move |column| entry(row, column, 1.0)));
        // Every cell occurs twice.
        let train = cells.clone().chain(cells).collect();
        Dataset::from(numbers(40), numbers(40), train, vec![entry(0, 0, 9.0)], origin)
    }

    #[test]
    fn what_is_held_out_is_no_longer_trained() {
        for symmetric in [false, true] {
            let mut data = square(Origin::Market { symmetric });
            data.hold_out(Split::Test, 0.25, 3).unwrap();
            assert_eq!(data.train().len() + data.test().len(), 3200);
            assert!((500..1100).contains(&data.test().len()), "{} of 3200", data.test().len());
            assert!(data.test().iter().all(|e| e.value == 1.0), "the old test entries are gone");
            let tested = |row, column| data.test().iter().any(|e| (e.row, e.column) == (row, column));
            assert!(data.train().iter().all(|e| !tested(e.row, e.column)));
            let mirrored = data.test().iter().all(|e| tested(e.column, e.row));
            assert_eq!(mirrored, symmetric);
            assert_eq!(data.row_uses().iter().map(|n| *n as usize).sum::<usize>(), data.train().len());
        }
        let test = |seed| {
            let mut data = square(Origin::Table);
            data.hold_out(Split::Test, 0.25, seed).unwrap();
            data.test().to_vec()
        };
        assert_eq!(test(1), test(1));
        assert_ne!(test(1), test(2));
        assert!(square(Origin::Table).hold_out(Split::Test, 1e-9, 1).is_err());
        assert!(square(Origin::Table).hold_out(Split::Test, 1.0 - 1e-9, 1).is_err());
    }

    #[test]
    fn validation_and_test_are_apart() {
        let mut data = square(Origin::Table);
        data.hold_out(Split::Test, 0.25, 3).unwrap();
        let (test, digest) = (data.test().to_vec(), data.digest());
        data.hold_out(Split::Valid, 0.25, 3).unwrap();
        assert_eq!(data.test(), test, "the test entries are the same with and without validation");
        assert_eq!(data.train().len() + data.valid().len() + test.len(), 3200);
        assert!((300..900).contains(&data.valid().len()), "{} of 2400", data.valid().len());
        let cell = |e: &Entry| (e.row, e.column);
        let seen = |e: &Entry| data.train().iter().chain(&test).any(|other| cell(other) == cell(e));
        assert!(!data.valid().iter().any(seen));
        assert_eq!(data.row_uses().iter().map(|n| *n as usize).sum::<usize>(), data.train().len());
        assert_ne!(data.digest(), digest);
    }

    #[test]
    fn the_digest_sees_everything() {
        let data = |rows, value, test| {
            Dataset::new(numbers(rows), numbers(3), vec![entry(0, 1, value), entry(1, 2, 2.0)], test)
        };
        let digests = [
            data(2, 1.0, vec![]),
            data(3, 1.0, vec![]),
            data(2, 1.5, vec![]),
            data(2, 1.0, vec![entry(1, 1, 2.0)]),
        ]
        .map(|data| data.digest());
        for (i, one) in digests.iter().enumerate() {
            assert!(digests[..i].iter().all(|other| other != one), "{i}");
        }
        assert_eq!(digests[0], data(2, 1.0, vec![]).digest());
    }

    #[test]
    fn uses_and_mean_are_those_of_the_training_entries() {
        let train = vec![entry(0, 1, 1.0), entry(0, 2, 2.0), entry(2, 1, 6.0)];
        let data = Dataset::new(numbers(3), numbers(4), train, vec![entry(1, 1, 50.0), entry(0, 1, 50.0)]);
        assert_eq!((data.row_uses(), data.column_uses()), (&[2, 0, 1][..], &[0, 2, 1, 0][..]));
        assert_eq!((data.mean(), data.unseen()), (3.0, 1));
    }
}
