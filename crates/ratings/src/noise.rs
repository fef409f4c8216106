//! How much of the values of a matrix is noise, and how much a product of factors can explain.
//!
//! If rows i and i' both have entries in columns j and j', and e are the residuals, then the product
//! e_ij · e_i'j · e_ij' · e_i'j' has the mean Σ over factors v², where v is the variance of a product of two
//! factors: noise cancels out. A sample of such rectangles estimates this mean. What factors do not explain
//! is noise.

use crate::{Biases, Dataset, Entry};
use intendant_core::random::{mix, stream};

/// What residuals consist of: the values, or what [`Biases`] leave of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// The mean square of the residuals.
    pub residuals: f64,
    /// The variance of a product of two factors, if there are four that are equally strong.
    pub product: f64,
}

/// Factors are taken to be as strong as this many that are equally strong.
const EQUALS: f64 = 4.0;

/// Bounds of the variance of a product of two factors, as parts of the mean square of the residuals: a sample
/// may show no structure at all, or hardly any noise.
const PART_MIN: f64 = 0.005;
const PART_MAX: f64 = 0.2;

impl Noise {
    /// Estimates it from the training entries: of their values, or of what `biases` leave. `seed` chooses the
    /// sample.
    #[must_use]
    pub fn of(data: &Dataset, biases: Option<&Biases>, seed: u64) -> Self {
        let residual = |entry: &Entry| entry.value - biases.map_or(0.0, |biases| biases.predict(entry));
        let train = data.train();
        let squares = train.iter().map(|entry| residual(entry).powi(2)).sum::<f64>();
        let residuals = squares / train.len().max(1) as f64;
        if residuals.is_nan() || residuals <= 0.0 {
            return Self { residuals: 0.0, product: 0.0 };
        }
        let moment = moment(data, residual, stream(seed, &[SAMPLE])).unwrap_or(0.0).max(0.0);
        let product = (moment / EQUALS).sqrt().clamp(PART_MIN * residuals, PART_MAX * residuals);
        Self { residuals, product }
    }

    /// The variance of the noise.
    #[must_use]
    pub fn variance(&self) -> f64 {
        self.residuals - EQUALS * self.product
    }

    /// The part of the residuals that is noise, from 0 to 1; 1 if there are none.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.residuals > 0.0 { self.variance() / self.residuals } else { 1.0 }
    }
}

/// The name of this use of the seed.
const SAMPLE: u64 = 3;

/// Pairs of entries of one column that are sampled.
const PAIRS: u64 = 1 << 17;

/// Entries of rows that are compared, at most.
const COMPARED_MAX: usize = 1 << 25;

/// The mean of the products of the residuals at the corners of rectangles: two rows and two columns that meet
/// in entries. `None` if the sample has no rectangle.
fn moment(data: &Dataset, residual: impl Fn(&Entry) -> f64, seed: u64) -> Option<f64> {
    // Entries of each row and of each column, those of a row by column.
    let train = data.train();
    let grouped = |places: usize, place: fn(&Entry) -> u32| {
        let mut starts = vec![0usize; places + 1];
        train.iter().for_each(|entry| starts[place(entry) as usize + 1] += 1);
        (0..places).for_each(|at| starts[at + 1] += starts[at]);
        starts
    };
    let row_starts = grouped(data.rows().len(), |entry| entry.row);
    let column_starts = grouped(data.columns().len(), |entry| entry.column);
    let mut by_column = vec![0u32; train.len()];
    let mut next = column_starts.clone();
    for (number, entry) in (0u32..).zip(train) {
        by_column[next[entry.column as usize]] = number;
        next[entry.column as usize] += 1;
    }
    // In the order of columns, so that each row's are ascending.
    let mut of_rows = vec![(0u32, 0.0f64); train.len()];
    let mut next = row_starts.clone();
    for number in &by_column {
        let entry = &train[*number as usize];
        of_rows[next[entry.row as usize]] = (entry.column, residual(entry));
        next[entry.row as usize] += 1;
    }
    let row = |row: u32| &of_rows[row_starts[row as usize]..row_starts[row as usize + 1]];
    let (mut sum, mut count, mut compared) = (0.0, 0u64, 0);
    for at in 0..PAIRS {
        // A random entry, and another one of its column.
        let first = (mix(stream(seed, &[at, 0])) % train.len() as u64) as usize;
        let column = train[by_column[first] as usize].column as usize;
        let entries = &by_column[column_starts[column]..column_starts[column + 1]];
        let other = entries[(mix(stream(seed, &[at, 1])) % entries.len() as u64) as usize];
        let (a, b) = (&train[by_column[first] as usize], &train[other as usize]);
        if a.row == b.row {
            continue;
        }
        let corner = residual(a) * residual(b);
        let (mut left, mut right) = (row(a.row), row(b.row));
        compared += left.len() + right.len();
        while let ([(i, x), ..], [(j, y), ..]) = (left, right) {
            if i == j && *i as usize != column {
                sum += corner * x * y;
                count += 1;
            }
            left = &left[usize::from(i <= j)..];
            right = &right[usize::from(j <= i)..];
        }
        if compared > COMPARED_MAX {
            break;
        }
    }
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ids;
    use rand::{RngExt, SeedableRng};
    use rand_distr::StandardNormal;
    use rand_pcg::Pcg64Mcg;

    /// A matrix of products of `factors` factors with variance `strength` each, and noise of variance 1.
    fn matrix(factors: usize, strength: f64, scale: f64) -> Dataset {
        let (rows, columns) = (400u32, 150u32);
        let mut random = Pcg64Mcg::seed_from_u64(5);
        let mut normal = |count: usize| -> Vec<f64> {
            (0..count).map(|_| random.sample::<f64, _>(StandardNormal)).collect()
        };
        let (p, q) = (normal(rows as usize * factors), normal(columns as usize * factors));
        let noise = normal((rows * columns) as usize);
        let value = |row: u32, column: u32| {
            let of = |all: &[f64], at: u32| all[at as usize * factors..][..factors].to_vec();
            let product: f64 = of(&p, row).iter().zip(of(&q, column)).map(|(p, q)| p * q).sum();
            scale * (strength.sqrt() * product + noise[(row * columns + column) as usize])
        };
        let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let some = cells.filter(|(row, column)| (row * 31 + column * 17) % 3 == 0);
        let entries = some.map(|(row, column)| Entry { row, column, value: value(row, column) }).collect();
        let ids = |count| Ids::Numbers { first: 0, count };
        Dataset::new(ids(rows), ids(columns), entries, Vec::new())
    }

    #[test]
    fn rectangles_show_the_strength_of_factors_and_not_that_of_noise() {
        for (factors, strength) in [(1, 1.0f64), (4, 0.25), (2, 0.1)] {
            let data = matrix(factors, strength, 1.0);
            let found = moment(&data, |entry| entry.value, 1).unwrap();
            let expected = factors as f64 * strength.powi(2);
            assert!((found / expected - 1.0).abs() < 0.35, "{factors} × {strength}: {found}, not {expected}");
        }
        let noise = matrix(1, 0.0, 1.0);
        let found = moment(&noise, |entry| entry.value, 1).unwrap();
        assert!(found.abs() < 0.02, "{found}");
    }

    #[test]
    fn noise_is_what_factors_do_not_explain() {
        for (factors, strength) in [(4, 0.25), (4, 0.05), (4, 0.0)] {
            let data = matrix(factors, strength, 3.0);
            let found = Noise::of(&data, Some(&Biases::of(&data)), 1).variance();
            assert!((found / 9.0 - 1.0).abs() < 0.25, "{factors} × {strength}: {found}, not 9");
        }
    }

    #[test]
    fn equal_values_and_a_single_entry_have_an_estimate() {
        let ids = |count| Ids::Numbers { first: 0, count };
        let entries = (0..20).map(|at| Entry { row: at % 5, column: at / 5, value: 3.0 }).collect();
        let data = Dataset::new(ids(5), ids(4), entries, Vec::new());
        let found = Noise::of(&data, Some(&Biases::of(&data)), 1);
        assert_eq!((found.variance(), found.share()), (0.0, 1.0));
        let one = Dataset::new(ids(1), ids(1), vec![Entry { row: 0, column: 0, value: 3.0 }], Vec::new());
        assert!(Noise::of(&one, None, 1).share() > 0.9);
    }
}
