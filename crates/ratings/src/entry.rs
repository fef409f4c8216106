//! One known cell of a matrix, and how many of them a data set can have.

/// A known cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Number of the row.
    pub row: u32,
    /// Number of the column.
    pub column: u32,
    /// Value of the cell.
    pub value: f64,
}

/// The most entries of a split: they are numbered with 32 bits.
pub const ENTRIES_MAX: usize = u32::MAX as usize;
