//! Why a chain cannot be set up, or why it ended.

use crate::{Item, Side};

/// Why a chain cannot be set up, or why it ended.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BpmfError {
    /// A setting is not allowed.
    #[error("{name} is {value}; it must be {allowed}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// An entry lies outside of the matrix.
    #[error(
        "entry {index} is at row {row}, column {column} of a matrix of {rows} rows and {columns} columns"
    )]
    Outside {
        /// The number of the entry, from 0.
        index: usize,
        /// Its row.
        row: u32,
        /// Its column.
        column: u32,
        /// Rows of the matrix.
        rows: u32,
        /// Columns of the matrix.
        columns: u32,
    },
    /// A value is infinite or not a number.
    #[error("the value of entry {index}, at row {row}, column {column}, is {value}; values must be finite")]
    NotFinite {
        /// The number of the entry, from 0.
        index: usize,
        /// Its row.
        row: u32,
        /// Its column.
        column: u32,
        /// Its value.
        value: f64,
    },
    /// More blocks than leaves, or a block that is not one of them.
    #[error("block {block} of {blocks}: there can be 1 to {blocks_max} blocks, numbered from 0")]
    NoSuchBlock {
        /// The block.
        block: u32,
        /// Blocks.
        blocks: u32,
        /// Maximum number of blocks.
        blocks_max: u32,
    },
    /// A block was given an item that it does not consume, or one of another length.
    #[error("block {block} was given {words} numbers of {item:?}, of which it consumes {expected}")]
    Unwanted {
        /// The block.
        block: u32,
        /// The item.
        item: Item,
        /// Numbers that were given.
        words: usize,
        /// Numbers that it consumes: 0 if it does not consume the item.
        expected: usize,
    },
    /// A block was asked for the tasks of a step, and had not been given items that the step needs.
    #[error(
        "block {block} draws hyperparameters in iteration {iteration} without the statistics of all blocks"
    )]
    Missing {
        /// The block.
        block: u32,
        /// The iteration, from 1.
        iteration: u32,
    },
    /// A precision matrix has no Cholesky factor: values have grown beyond the range of numbers.
    #[error(
        "the precision of {} is not positive definite in iteration {iteration}: values have left the range of \
         numbers; scale the data, or choose a smaller alpha",
        what.of(*side)
    )]
    Diverged {
        /// Rows or columns.
        side: Side,
        /// The row, or the hyperparameters.
        what: What,
        /// The iteration, from 1.
        iteration: u32,
    },
}

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The hyperparameters of a side.
    Hyperparameters,
    /// A row of this number.
    Row(u32),
}

impl What {
    /// What is drawn, of a side.
    fn of(self, side: Side) -> String {
        match (self, side) {
            (Self::Hyperparameters, Side::Rows) => "the hyperparameters of rows".to_owned(),
            (Self::Hyperparameters, Side::Columns) => "the hyperparameters of columns".to_owned(),
            (Self::Row(row), Side::Rows) => format!("row {row} (counted from 0)"),
            (Self::Row(row), Side::Columns) => format!("column {row} (counted from 0)"),
        }
    }
}
