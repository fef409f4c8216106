//! Predictions from the row and the column of a cell alone.

use super::{Dataset, Entry};

/// How often all numbers are fitted, those of columns and those of rows in turn.
const PASSES: usize = 12;

/// A mean, and a number for each row and each column: a cell is predicted as their sum.
///
/// The numbers are those of a model with normally distributed errors, rows and columns (random effects),
/// whose three variances are estimated from the entries by expectation maximisation. So a number is the mean
/// of what its entries leave to it, shrunk by as much as the data suggest: no setting has to be chosen.
#[derive(Clone, Debug)]
pub struct Biases {
    mean: f64,
    rows: Side,
    columns: Side,
    /// The estimated variance of the errors.
    error: f64,
}

/// The numbers of the rows, or of the columns.
#[derive(Clone, Debug)]
struct Side {
    biases: Vec<f64>,
    /// Entries of each.
    counts: Vec<f64>,
    /// The estimated variance of the numbers.
    variance: f64,
}

impl Side {
    fn new(places: usize, entries: impl Iterator<Item = u32>, variance: f64) -> Self {
        let mut counts = vec![0.0; places];
        entries.for_each(|place| counts[place as usize] += 1.0);
        Self { biases: vec![0.0; places], counts, variance }
    }

    /// Fits the numbers to what is left of the entries, whose errors have the variance `error`. Returns the
    /// uncertainty of the numbers, summed over the entries.
    fn fit(&mut self, left: impl Iterator<Item = (u32, f64)>, error: f64) -> f64 {
        let mut sums = vec![0.0; self.biases.len()];
        left.for_each(|(place, value)| sums[place as usize] += value);
        let shrink = error / self.variance.max(f64::MIN_POSITIVE);
        let (mut squares, mut uncertainty, mut used) = (0.0, 0.0, 0.0);
        for ((bias, sum), count) in self.biases.iter_mut().zip(sums).zip(&self.counts) {
            *bias = sum / (shrink + count);
            let own = error / (shrink + count);
            if *count > 0.0 {
                squares += bias.powi(2) + own;
                used += 1.0;
            }
            uncertainty += count * own;
        }
        self.variance = squares / f64::max(used, 1.0);
        uncertainty
    }

    fn of(&self, place: u32) -> f64 {
        self.biases[place as usize]
    }
}

impl Biases {
    /// Those of the training entries.
    #[must_use]
    pub fn of(data: &Dataset) -> Self {
        let (mean, train) = (data.mean(), data.train());
        let count = train.len().max(1) as f64;
        let all = train.iter().map(|entry| (entry.value - mean).powi(2)).sum::<f64>() / count;
        // The parts are of one size until the data tell.
        let mut error = all / 3.0;
        let mut rows = Side::new(data.rows().len(), train.iter().map(|entry| entry.row), error);
        let mut columns = Side::new(data.columns().len(), train.iter().map(|entry| entry.column), error);
        // Of equal values, nothing can be told apart.
        for _ in 0..if all > 0.0 { PASSES } else { 0 } {
            let left = train.iter().map(|entry| (entry.column, entry.value - mean - rows.of(entry.row)));
            let of_columns = columns.fit(left, error);
            let left = train.iter().map(|entry| (entry.row, entry.value - mean - columns.of(entry.column)));
            let of_rows = rows.fit(left, error);
            let square =
                |entry: &Entry| (entry.value - mean - rows.of(entry.row) - columns.of(entry.column)).powi(2);
            error = (train.iter().map(square).sum::<f64>() + of_columns + of_rows) / count;
        }
        Self { mean, rows, columns, error }
    }

    /// The number of a row.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn row(&self, row: u32) -> f64 {
        self.rows.of(row)
    }

    /// The number of a column.
    ///
    /// # Panics
    /// If there is no such column.
    #[must_use]
    pub fn column(&self, column: u32) -> f64 {
        self.columns.of(column)
    }

    /// The estimated variance of the numbers of rows.
    #[must_use]
    pub fn row_variance(&self) -> f64 {
        self.rows.variance
    }

    /// The estimated variance of the numbers of columns.
    #[must_use]
    pub fn column_variance(&self) -> f64 {
        self.columns.variance
    }

    /// The estimated variance of the errors.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.error
    }

    /// What is predicted for the cell of an entry.
    ///
    /// # Panics
    /// If there is no such row or column.
    #[must_use]
    pub fn predict(&self, entry: &Entry) -> f64 {
        self.mean + self.rows.of(entry.row) + self.columns.of(entry.column)
    }

    /// The root of the mean squared error of `entries`; `None` if there are none.
    #[must_use]
    pub fn rmse(&self, entries: &[Entry]) -> Option<f64> {
        let square = |entry: &Entry| (entry.value - self.predict(entry)).powi(2);
        let squares = entries.iter().map(square).sum::<f64>();
        (!entries.is_empty()).then(|| (squares / entries.len() as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ids;

    fn ids(count: u32) -> Ids {
        Ids::Numbers { first: 0, count }
    }

    fn data(rows: u32, columns: u32, value: impl Fn(u32, u32) -> f64) -> Dataset {
        let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let entries = cells.map(|(row, column)| Entry { row, column, value: value(row, column) });
        Dataset::new(ids(rows), ids(columns), entries.collect(), Vec::new())
    }

    #[test]
    fn sums_of_a_row_and_a_column_are_predicted_and_products_are_not() {
        let many = |value: fn(f64, f64) -> f64| {
            data(350, 200, move |row, column| value(f64::from(row % 7), f64::from(column % 5)))
        };
        let sums = many(|row, column| 3.0 + row - 2.0 * column);
        let error = Biases::of(&sums).rmse(sums.train()).expect("entries");

        assert!(error < 0.05, "{error}: the mean alone has an error of 3.5");
        let products = many(|row, column| (row - 3.0) * (column - 2.0));
        let error = Biases::of(&products).rmse(products.train()).expect("entries");
        // Of rows and columns alone, no better prediction exists than the mean: 2 × √2.
        assert!((error - 8f64.sqrt()).abs() < 1e-9, "{error}");
    }

    #[test]
    fn rows_and_columns_without_entries_are_predicted_by_the_others() {
        let mut known = data(50, 40, |row, _| f64::from(row));
        known = Dataset::new(ids(60), ids(45), known.train().to_vec(), Vec::new());
        let biases = Biases::of(&known);
        let unknown = [Entry { row: 59, column: 44, value: known.mean() }];
        assert_eq!(biases.rmse(&unknown), Some(0.0));
        assert_eq!(biases.rmse(&[]), None);
    }
}
