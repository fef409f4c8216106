//! Reading many values one after the other.

use super::Checkpoint;
use intendant_core::{Element, Key, copy_from_bytes};
use std::io;
use std::marker::PhantomData;

/// About the most bytes that all windows of one reader take.
const BYTES_MAX: usize = 64 << 20;

/// About the most bytes of one window. Longer reads are not faster.
const WINDOW_BYTES_MAX: usize = 1 << 20;

/// Reads values of a checkpoint one after the other. It reads values that follow each other in a file
/// together. The longer such a sequence is, the more values it reads together, so that it reads keys in
/// ascending order about as fast as the files can be read. Keys in any other order are read one by one.
#[derive(Debug)]
pub struct Values<'a, E> {
    checkpoint: &'a Checkpoint,
    /// One for each table.
    windows: Vec<Window>,
    window_bytes: usize,
    element: PhantomData<E>,
}

/// Rows of a table that are in memory.
#[derive(Clone, Debug, Default)]
struct Window {
    first: u32,
    rows: u32,
    bytes: Vec<u8>,
}

impl Checkpoint {
    /// A reader of many values.
    ///
    /// # Panics
    /// If the values are of another type.
    #[must_use]
    pub fn values<E: Element>(&self) -> Values<'_, E> {
        assert_eq!(E::TYPE, self.element(), "values are read as what they are");
        let tables = self.tables().len();
        let window_bytes = (BYTES_MAX / tables.max(1)).min(WINDOW_BYTES_MAX);
        Values {
            checkpoint: self,
            windows: vec![Window::default(); tables],
            window_bytes,
            element: PhantomData,
        }
    }
}

impl<E: Element> Values<'_, E> {
    /// Reads the value of a key.
    ///
    /// # Errors
    /// If the file cannot be read any more.
    ///
    /// # Panics
    /// If the model has no such key, or its values have another length.
    pub fn read(&mut self, key: Key, value: &mut [E]) -> io::Result<()> {
        let (table, row) = self.checkpoint.place(key);
        let (window, table) = (&mut self.windows[table], &self.checkpoint.tables()[table]);
        assert_eq!(value.len(), table.len, "the length of a value of {key:?}");
        let row_bytes = size_of_val(value);
        let end = window.first + window.rows;
        if !(window.first..end).contains(&row) {
            let rows = if row == end { window.rows.saturating_mul(2).max(1) } else { 1 };
            let fit = u32::try_from(self.window_bytes / row_bytes.max(1)).unwrap_or(u32::MAX).max(1);
            let rows = rows.min(fit).min(table.rows - row);
            window.bytes.resize(rows as usize * row_bytes, 0);
            (window.first, window.rows) = (row, 0);
            table.read(row, row_bytes, &mut window.bytes)?;
            window.rows = rows;
        }
        let at = (row - window.first) as usize * row_bytes;
        copy_from_bytes(value, &window.bytes[at..at + row_bytes]);
        Ok(())
    }
}
