//! The known entries of a matrix, by row and by column, and how rows are divided into leaves.

mod items;
mod work;

use crate::config::Config;
use crate::error::BpmfError;
use crate::item::Side;
use crate::predict::{Held, Sums};
use crate::quantity::{PREDICTION, Quantity};
use crate::tree::Tree;
use std::ops::Range;

/// A known cell: row, column, value.
pub type Cell = (u32, u32, f64);

/// Entries of one side, row by row (of the side; a column of the matrix is a row of [`Side::Columns`]).
#[derive(Clone, Debug)]
pub(crate) struct Entries {
    /// The place at which each row begins, and the number of entries at the end.
    starts: Vec<usize>,
    /// Numbers of the rows of the other side.
    pub(crate) others: Vec<u32>,
    /// Values, centred.
    pub(crate) values: Vec<f64>,
}

impl Entries {
    /// Sorts `cells` by row, then by the row of the other side; equal cells keep their order.
    fn new(rows: u32, cells: impl Iterator<Item = Cell> + Clone) -> Self {
        let mut starts = vec![0usize; rows as usize + 1];
        for (row, ..) in cells.clone() {
            starts[row as usize + 1] += 1;
        }
        for row in 0..rows as usize {
            starts[row + 1] += starts[row];
        }
        let count = starts[rows as usize];
        let mut sorted = vec![(0u32, 0.0f64); count];
        let mut next = starts.clone();
        for (row, other, value) in cells {
            sorted[next[row as usize]] = (other, value);
            next[row as usize] += 1;
        }
        for row in 0..rows as usize {
            sorted[starts[row]..starts[row + 1]].sort_by_key(|(other, _)| *other);
        }
        let (others, values) = sorted.into_iter().unzip();
        Self { starts, others, values }
    }

    /// Rows.
    pub(crate) fn rows(&self) -> u32 {
        (self.starts.len() - 1) as u32
    }

    /// The places of the entries of some rows.
    pub(crate) fn places(&self, rows: Range<u32>) -> Range<usize> {
        self.starts[rows.start as usize]..self.starts[rows.end as usize]
    }

    /// The rows of the other side and the values of the entries of a row.
    pub(crate) fn of(&self, row: u32) -> (&[u32], &[f64]) {
        let places = self.places(row..row + 1);
        (&self.others[places.clone()], &self.values[places])
    }

    /// The rows among `rows` that have entries. `values` has the values of all `rows`, `rank` each.
    ///
    /// Hyperparameters are drawn given these rows only. The other rows depend on nothing but the
    /// hyperparameters, and nothing else depends on them. Without them the chain samples the same
    /// distribution, and rows that only repeat the hyperparameters do not slow their movement.
    #[inline(always)]
    pub(crate) fn of_trained<'a>(
        &self,
        rows: Range<u32>,
        values: &'a [f64],
        rank: usize,
    ) -> impl Iterator<Item = &'a [f64]> {
        let has_entries = move |row: &u32| !self.places(*row..row + 1).is_empty();
        rows.zip(values.chunks_exact(rank)).filter(move |(row, _)| has_entries(row)).map(|(_, values)| values)
    }
}

/// One side: its entries and its leaves.
#[derive(Clone, Debug)]
pub(crate) struct SideData {
    pub(crate) entries: Entries,
    pub(crate) tree: Tree,
    /// The first row of each leaf, and the number of rows at the end.
    bounds: Vec<u32>,
}

/// Maximum number of leaves of a side: large enough that blocks are about equal (7 blocks differ by 5 %), and
/// small enough that the sums of the inner nodes take little time.
pub const LEAVES_MAX: u32 = 128;

impl SideData {
    fn new(entries: Entries, rank: usize) -> Self {
        let rows = entries.rows();
        let tree = Tree::new(rows.clamp(1, LEAVES_MAX));
        // A row with n entries costs nK² operations for the products of its entries, and K³/3 for the
        // Cholesky factor.
        let load = |row: u32| (3 * entries.places(row..row + 1).len() + rank) as u64;
        let total: u64 = (0..rows).map(load).sum();
        let (mut bounds, mut before, mut row) = (vec![0], 0u64, 0u32);
        for leaf in 1..tree.leaves() {
            let goal = total * u64::from(leaf) / u64::from(tree.leaves());
            while row < rows && before < goal {
                before += load(row);
                row += 1;
            }
            bounds.push(row);
        }
        bounds.push(rows);
        Self { entries, tree, bounds }
    }

    /// The rows of some leaves.
    pub(crate) fn rows(&self, leaves: Range<u32>) -> Range<u32> {
        self.bounds[leaves.start as usize]..self.bounds[leaves.end as usize]
    }

    /// The rows of a leaf.
    pub(crate) fn leaf(&self, leaf: u32) -> Range<u32> {
        self.rows(leaf..leaf + 1)
    }
}

/// The model that a chain samples: the entries, centred, and the settings.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) config: Config,
    pub(crate) mean: f64,
    /// By row, by column.
    pub(crate) sides: [SideData; 2],
    /// Held-out entries by row, of each [`Held`].
    pub(crate) held: [Entries; 2],
}

impl Model {
    /// A model of a matrix of `rows` × `columns` cells, of which `train` are known. `test` are predicted.
    /// `mean` is subtracted from all values; the mean of the training entries is usual. Cells that occur
    /// several times are several observations.
    ///
    /// # Errors
    /// [`BpmfError::Setting`], [`BpmfError::Outside`] or [`BpmfError::NotFinite`].
    pub fn new(
        config: Config,
        (rows, columns): (u32, u32),
        train: impl Iterator<Item = Cell> + Clone,
        test: impl Iterator<Item = Cell> + Clone,
        mean: f64,
    ) -> Result<Self, BpmfError> {
        config.check()?;
        check(train.clone().chain(test.clone()), (rows, columns), mean)?;
        let centred = |(row, column, value): Cell| (row, column, value - mean);
        let turned = |(row, column, value): Cell| (column, row, value - mean);
        let by_row = SideData::new(Entries::new(rows, train.clone().map(centred)), config.rank);
        let by_column = SideData::new(Entries::new(columns, train.map(turned)), config.rank);
        let held = [Entries::new(rows, std::iter::empty()), Entries::new(rows, test.map(centred))];
        Ok(Self { config, mean, sides: [by_row, by_column], held })
    }

    /// The same model with validation entries, by which users watch the chain. They are predicted like test
    /// entries.
    ///
    /// # Errors
    /// [`BpmfError::Outside`] or [`BpmfError::NotFinite`].
    pub fn with_validation(mut self, cells: impl Iterator<Item = Cell> + Clone) -> Result<Self, BpmfError> {
        let size = (self.rows(Side::Rows), self.rows(Side::Columns));
        check(cells.clone(), size, self.mean)?;
        let mean = self.mean;
        let centred = |(row, column, value): Cell| (row, column, value - mean);
        self.held[Held::Validation as usize] = Entries::new(size.0, cells.map(centred));
        Ok(self)
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What was subtracted from all values.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Rows of a side.
    pub fn rows(&self, side: Side) -> u32 {
        self.side(side).entries.rows()
    }

    /// Maximum number of blocks into which the model can be divided.
    pub fn blocks_max(&self) -> u32 {
        LEAVES_MAX
    }

    /// Training entries.
    pub fn entries(&self) -> usize {
        self.sides[0].entries.values.len()
    }

    /// Held-out entries.
    pub fn held(&self, held: Held) -> usize {
        self.held[held as usize].values.len()
    }

    /// The held-out entries of block `block` of `blocks`: those of its rows.
    pub fn held_of(&self, held: Held, block: u32, blocks: u32) -> Range<usize> {
        self.held[held as usize].places(self.rows_of(Side::Rows, block, blocks))
    }

    /// The rows of a side that block `block` of `blocks` has.
    pub fn rows_of(&self, side: Side, block: u32, blocks: u32) -> Range<u32> {
        let data = self.side(side);
        data.rows(data.tree.share(block, blocks))
    }

    /// The number of values of a quantity, and the number of numbers in each.
    pub fn extent(&self, quantity: Quantity) -> (u64, usize) {
        match quantity {
            Quantity::Row(side) | Quantity::Mean(side) | Quantity::Squares(side) => {
                (self.rows(side).into(), self.config.rank)
            }
            Quantity::Prediction(held) => (self.held(held) as u64, PREDICTION),
        }
    }

    /// The number of sums that [`crate::Block::sums`] of block `block` of `blocks` returns.
    pub fn sums_of(&self, block: u32, blocks: u32) -> usize {
        let tree = self.side(Side::Rows).tree;
        tree.cover(tree.share(block, blocks)).len()
    }

    /// The sum of the sums of all blocks; `None` if those of a block are missing.
    pub fn total(&self, sums: impl IntoIterator<Item = (u32, Sums)>) -> Option<Sums> {
        self.side(Side::Rows).tree.root(&sums.into_iter().collect())
    }

    pub(crate) fn side(&self, side: Side) -> &SideData {
        &self.sides[side as usize]
    }
}

/// Checks that cells are inside of a matrix, and finite.
fn check(cells: impl Iterator<Item = Cell>, (rows, columns): (u32, u32), mean: f64) -> Result<(), BpmfError> {
    for (index, (row, column, value)) in cells.enumerate() {
        if row >= rows || column >= columns {
            return Err(BpmfError::Outside { index, row, column, rows, columns });
        }
        if !(value - mean).is_finite() {
            return Err(BpmfError::NotFinite { index, row, column, value });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(cells: &[Cell], size: (u32, u32)) -> Result<Model, BpmfError> {
        Model::new(Config::default(), size, cells.iter().copied(), std::iter::empty(), 1.0)
    }

    #[test]
    fn both_sides_have_the_same_entries_in_a_fixed_order() {
        let cells = [(2, 1, 5.0), (0, 3, 2.0), (2, 0, 4.0), (0, 1, 3.0), (2, 1, 6.0)];
        let found = model(&cells, (3, 4)).expect("inside");
        assert_eq!(found.side(Side::Rows).entries.of(2), (&[0, 1, 1][..], &[3.0, 4.0, 5.0][..]));
        assert_eq!(found.side(Side::Rows).entries.of(1), (&[][..], &[][..]));
        assert_eq!(found.side(Side::Columns).entries.of(1), (&[0, 2, 2][..], &[2.0, 4.0, 5.0][..]));
        assert_eq!((found.entries(), found.rows(Side::Columns)), (5, 4));
    }

    #[test]
    fn leaves_hold_each_row_once_and_are_about_equal() {
        // Row r has r % 7 entries, and row 40 has 500.
        let cells: Vec<Cell> = (0..600u32)
            .flat_map(|row| (0..if row == 40 { 500 } else { row % 7 }).map(move |column| (row, column, 1.0)))
            .collect();
        let found = model(&cells, (600, 500)).expect("inside");
        let side = found.side(Side::Rows);
        let load = |leaf: u32| {
            let rows = side.leaf(leaf);
            3 * side.entries.places(rows.clone()).len() + 16 * rows.len()
        };
        let leaves = side.tree.leaves();
        assert_eq!(leaves, 128);
        assert_eq!((0..leaves).map(|leaf| side.leaf(leaf).len()).sum::<usize>(), 600);
        let loads: Vec<usize> = (0..leaves).map(load).collect();
        let mean = loads.iter().sum::<usize>() / loads.len();
        assert!(loads.iter().filter(|load| **load > 2 * mean).count() <= 1, "{loads:?}");
        assert_eq!(model(&[], (0, 3)).expect("empty").side(Side::Rows).leaf(0), 0..0);
    }

    #[test]
    fn entries_that_cannot_be_used_are_named() {
        let said = |cells: &[Cell]| model(cells, (2, 2)).expect_err("refused").to_string();
        assert_eq!(
            said(&[(0, 0, 1.0), (1, 2, 1.0)]),
            "entry 1 is at row 1, column 2 of a matrix of 2 rows and 2 columns"
        );
        assert!(said(&[(1, 0, f64::INFINITY)]).contains("row 1, column 0, is inf"));
    }
}
