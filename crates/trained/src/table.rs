//! A matrix in memory, row by row.

use intendant_core::Element;

/// Rows of equally many numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Table<E> {
    values: Vec<E>,
    columns: usize,
}

impl<E: Element> Table<E> {
    /// The rows of `columns` numbers that follow each other in `values`.
    ///
    /// # Panics
    /// If there are no columns, or `values` has a part of a row.
    #[must_use]
    pub fn new(values: Vec<E>, columns: usize) -> Self {
        assert!(
            columns > 0 && values.len().is_multiple_of(columns),
            "{} numbers in rows of {columns}",
            values.len()
        );
        Self { values, columns }
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.values.len() / self.columns
    }

    /// Numbers of each row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// A row.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn row(&self, at: usize) -> &[E] {
        &self.values[at * self.columns..][..self.columns]
    }

    /// All numbers, row by row.
    #[must_use]
    pub fn values(&self) -> &[E] {
        &self.values
    }

    /// Scales each row to length 1; rows of zeros stay.
    pub fn normalise(&mut self) {
        for row in self.values.chunks_exact_mut(self.columns) {
            let length = crate::norm(row);
            if length > 0.0 {
                row.iter_mut().for_each(|x| *x = E::from_f64(x.to_f64() / length));
            }
        }
    }
}
