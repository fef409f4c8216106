//! A matrix in memory, row by row.

use intendant_core::Element;
use std::sync::OnceLock;

/// Rows of equally many numbers.
#[derive(Clone, Debug)]
pub struct Table<E> {
    values: Vec<E>,
    columns: usize,
    /// The lengths of the rows, once a search has needed them.
    norms: OnceLock<Vec<f64>>,
}

impl<E: PartialEq> PartialEq for Table<E> {
    fn eq(&self, other: &Self) -> bool {
        // Lengths follow from the numbers.
        self.columns == other.columns && self.values == other.values
    }
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
        Self { values, columns, norms: OnceLock::new() }
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

    /// The length of each row. They are computed once and kept: a search needs them for every block of rows,
    /// and to compute them takes longer than to search for a single vector.
    pub fn norms(&self) -> &[f64] {
        self.norms.get_or_init(|| self.values.chunks_exact(self.columns).map(crate::norm).collect())
    }

    /// A copy of these rows, each scaled to length 1; rows of zeros stay.
    #[must_use]
    pub fn unit(&self) -> Self {
        let mut unit = Self::new(self.values.clone(), self.columns);
        unit.normalise();
        unit
    }

    /// Scales each row to length 1; rows of zeros stay.
    pub fn normalise(&mut self) {
        self.norms = OnceLock::new();
        for row in self.values.chunks_exact_mut(self.columns) {
            let length = crate::norm(row);
            if length > 0.0 {
                row.iter_mut().for_each(|x| *x = E::from_f64(x.to_f64() / length));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_rows_as_they_are() {
        let mut table = Table::new(vec![3.0f32, 4.0, 0.0, 0.0], 2);
        assert_eq!(table.norms(), [5.0, 0.0]);
        let unit = table.unit();
        assert_eq!(table.row(0), [3.0, 4.0]);
        table.normalise();
        assert!((table.norms()[0] - 1.0).abs() < 1e-6);
        assert_eq!(table, unit);
    }
}
