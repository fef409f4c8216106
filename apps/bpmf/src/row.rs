//! One row, drawn given the rows of the other side.

use crate::hyper::Hyper;
use crate::linalg::{GATHERED, NotPositive, add_gram, add_scaled, factor, solve, solve_transposed, stride};
use crate::moments::padded;
use pulp::Arch;
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use std::ops::Range;

/// Rows of one side, as a block sees them: its own, and copies of other blocks' rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) rank: usize,
    pub(crate) own_rows: &'a Range<u32>,
    pub(crate) own: &'a [f64],
    /// For each row of the side, the place of its copy, if there is one.
    pub(crate) places: &'a [u32],
    pub(crate) copies: &'a [f64],
}

impl<'a> View<'a> {
    /// A row that the block owns or consumes.
    #[inline(always)]
    pub(crate) fn row(&self, row: u32) -> &'a [f64] {
        let (rows, at) = if self.own_rows.contains(&row) {
            (self.own, row - self.own_rows.start)
        } else {
            (self.copies, self.places[row as usize])
        };
        &rows[at as usize * self.rank..][..self.rank]
    }
}

/// Buffers of a thread. One for each thread that runs tasks.
#[derive(Debug)]
pub struct Scratch {
    pub(crate) arch: Arch,
    pub(crate) matrix: Vec<f64>,
    pub(crate) rows: Vec<f64>,
    pub(crate) vector: Vec<f64>,
}

impl Scratch {
    /// Empty buffers.
    pub fn new() -> Self {
        Self { arch: Arch::new(), matrix: Vec::new(), rows: Vec::new(), vector: Vec::new() }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

/// Draws a row: normal with precision A = Λ + αΣvvᵀ and mean A⁻¹b, b = Λμ + αΣv·value
/// [Salakhutdinov & Mnih 2008, equations 11 to 13]. With A = RᵀR: Rᵀy = b, Rx = y + z, z standard normal.
///
/// `others` are the rows v of the entries and `values` their values, centred.
#[inline(always)]
pub(crate) fn draw(
    hyper: &Hyper,
    alpha: f64,
    (others, values): (&[u32], &[f64]),
    view: View<'_>,
    random: &mut impl Rng,
    scratch: &mut Scratch,
    out: &mut [f64],
) -> Result<(), NotPositive> {
    let (rank, stride) = (view.rank, stride(view.rank));
    let Scratch { matrix, rows, vector, .. } = scratch;
    matrix.clear();
    matrix.extend_from_slice(&hyper.precision);
    debug_assert_eq!(matrix.len(), padded(rank) * stride);
    // Σv·value, then b.
    vector.clear();
    vector.resize(rank, 0.0);
    for (others, values) in others.chunks(GATHERED).zip(values.chunks(GATHERED)) {
        rows.clear();
        for (other, value) in others.iter().zip(values) {
            let v = view.row(*other);
            add_scaled(vector, *value, v);
            rows.extend_from_slice(v);
            rows.resize(rows.len().next_multiple_of(stride), 0.0);
        }
        add_gram(matrix, rows, alpha, rank);
    }
    for (b, shift) in vector.iter_mut().zip(&hyper.shift) {
        *b = alpha.mul_add(*b, *shift);
    }
    factor(matrix, rank)?;
    solve_transposed(matrix, vector, rank);
    for y in vector.iter_mut() {
        let z: f64 = StandardNormal.sample(random);
        *y += z;
    }
    solve(matrix, vector, rank);
    out.copy_from_slice(vector);
    Ok(())
}

#[cfg(test)]
#[expect(clippy::needless_range_loop, reason = "indices of matrices")]
mod tests {
    use super::*;
    use crate::moments::Moments;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    /// With Λ, μ and V fixed, a row is normal. The test compares its mean and covariance with the closed
    /// form, which it computes by Gauss-Jordan elimination.
    #[test]
    fn a_row_has_the_mean_and_covariance_of_the_closed_form() {
        const RANK: usize = 3;
        const DRAWS: usize = 60_000;
        const ALPHA: f64 = 1.7;
        let mut moments = Moments::new(RANK);
        let sample: Vec<f64> = (0..8 * RANK).map(|i| f64::from(i as u32 * 29 % 17) / 8.0 - 1.0).collect();
        moments.measure(sample.chunks_exact(RANK), RANK, &mut Vec::new());
        let mut random = Pcg64Mcg::seed_from_u64(9);
        let prior = crate::hyper::Prior { beta: 2.0, nu: 4.0 };
        let hyper = crate::hyper::draw(prior, &moments, RANK, &mut random).expect("positive");
        let v: Vec<f64> = (0..5 * RANK).map(|i| f64::from(i as u32 * 13 % 11) / 5.0 - 1.0).collect();
        let (others, values) = ([0u32, 2, 2, 4], [1.5, -0.5, 0.25, 2.0]);
        let view = View { rank: RANK, own_rows: &(0..5), own: &v, places: &[], copies: &[] };

        let precision = |i: usize, j: usize| hyper.precision[i.min(j) * stride(RANK) + i.max(j)];
        let mut a = [[0.0; 2 * RANK]; RANK];
        let mut b = [0.0; RANK];
        for i in 0..RANK {
            for j in 0..RANK {
                a[i][j] = precision(i, j)
                    + ALPHA * others.iter().map(|o| view.row(*o)[i] * view.row(*o)[j]).sum::<f64>();
                b[i] += precision(i, j) * hyper.mean[j];
            }
            a[i][RANK + i] = 1.0;
            b[i] += ALPHA * others.iter().zip(values).map(|(o, r)| view.row(*o)[i] * r).sum::<f64>();
        }
        for k in 0..RANK {
            let pivot = a[k][k];
            a[k].iter_mut().for_each(|x| *x /= pivot);
            for i in (0..RANK).filter(|i| *i != k) {
                let by = a[i][k];
                for j in 0..2 * RANK {
                    a[i][j] -= by * a[k][j];
                }
            }
        }
        let covariance = |i: usize, j: usize| a[i][RANK + j];
        let mean: Vec<f64> = (0..RANK).map(|i| (0..RANK).map(|j| covariance(i, j) * b[j]).sum()).collect();

        let mut scratch = Scratch::new();
        let (mut sums, mut products) = ([0.0; RANK], [[0.0; RANK]; RANK]);
        let mut x = [0.0; RANK];
        for _ in 0..DRAWS {
            draw(&hyper, ALPHA, (&others, &values), view, &mut random, &mut scratch, &mut x)
                .expect("positive");
            for i in 0..RANK {
                sums[i] += x[i];
                for j in 0..RANK {
                    products[i][j] += (x[i] - mean[i]) * (x[j] - mean[j]);
                }
            }
        }
        let draws = DRAWS as f64;
        for i in 0..RANK {
            let z = (sums[i] / draws - mean[i]) / (covariance(i, i) / draws).sqrt();
            assert!(z.abs() < 4.0, "mean of {i}: z = {z}");
            for j in 0..RANK {
                let variance = covariance(i, j).powi(2) + covariance(i, i) * covariance(j, j);
                let z = (products[i][j] / draws - covariance(i, j)) / (variance / draws).sqrt();
                assert!(z.abs() < 4.0, "covariance of {i}, {j}: z = {z}");
            }
        }
    }
}
