//! Dense linear algebra on small symmetric matrices: Gram matrices, Cholesky factors, triangular solves.
//!
//! Matrices are square, of `rank` rows of [`stride`] elements each, row by row; the elements of a row beyond
//! `rank` are zero. Only the upper triangle is meaningful. A factor is upper triangular, R with A = RᵀR, so
//! that all inner loops run along rows.
//!
//! The loops are plain and never `unsafe`. They are inlined into [`pulp`]'s dispatch, which compiles them for
//! several generations of processors. Each sum has one fixed order, and each multiplication that is followed
//! by an addition is fused explicitly ([`f64::mul_add`] rounds once on every machine): results have the same
//! bits on every processor.

/// The width of a tile, to a multiple of which rows are padded: two registers of AVX2, one of AVX-512.
pub(crate) const LANES: usize = 8;
/// Rows of a tile. With this height, the accumulators of a tile fill half of the registers of AVX2.
const TILE: usize = 4;

/// Elements from one row of a matrix to the next.
pub(crate) const fn stride(rank: usize) -> usize {
    rank.next_multiple_of(LANES)
}

/// The matrix has a pivot that is not positive, or is not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotPositive {
    /// The row.
    pub(crate) row: usize,
}

/// Adds `factor` · Σ source[p][i] · source[p][j] to `target`, over the first `rows` rows p of `source`.
/// `target` holds the rows `first..first + TILE` of a matrix; its columns from `first` on, rounded down to a
/// tile, are changed.
#[inline(always)]
fn add_products(target: &mut [f64], first: usize, source: &[f64], rows: usize, factor: f64, stride: usize) {
    for column in (first / LANES * LANES..stride).step_by(LANES) {
        let mut sums = [[0.0f64; LANES]; TILE];
        for row in source.chunks_exact(stride).take(rows) {
            let Some((left, right)) =
                row[first..].first_chunk::<TILE>().zip(row[column..].first_chunk::<LANES>())
            else {
                unreachable!("rows are padded to whole tiles")
            };
            for i in 0..TILE {
                for j in 0..LANES {
                    sums[i][j] = left[i].mul_add(right[j], sums[i][j]);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            for (to, sum) in target[i * stride + column..][..LANES].iter_mut().zip(sums) {
                *to = factor.mul_add(*sum, *to);
            }
        }
    }
}

/// Rows that are gathered for one [`add_gram`]. They stay in the nearest cache, even if their elements at the
/// same column map to few of its sets: with 128 factors, 24 rows were a third faster than 64.
pub(crate) const GATHERED: usize = 24;

/// Adds `factor` · XᵀX to the upper triangle of `target`. `x` has any number of rows of `stride(rank)`
/// elements.
#[inline(always)]
pub(crate) fn add_gram(target: &mut [f64], x: &[f64], factor: f64, rank: usize) {
    let stride = stride(rank);
    let rows = x.len() / stride;
    for first in (0..rank).step_by(TILE) {
        let target = &mut target[first * stride..];
        add_products(target, first, x, rows, factor, stride);
    }
}

/// Replaces the upper triangle of a symmetric matrix by its factor: a blocked, left-looking Cholesky
/// factorisation. Below the diagonal, the matrix is undefined afterwards.
#[inline(always)]
pub(crate) fn factor(matrix: &mut [f64], rank: usize) -> Result<(), NotPositive> {
    let stride = stride(rank);
    for first in (0..rank).step_by(TILE) {
        let (done, rest) = matrix.split_at_mut(first * stride);
        add_products(rest, first, done, first, -1.0, stride);
        let from = first / LANES * LANES;
        let last = (first + TILE).min(rank);
        for k in first..last {
            let (panel, row) = rest.split_at_mut((k - first) * stride);
            let row = &mut row[..stride];
            for above in panel.chunks_exact(stride) {
                let by = -above[k];
                for (to, value) in row[from..].iter_mut().zip(&above[from..]) {
                    *to = by.mul_add(*value, *to);
                }
            }
            let pivot = row[k];
            if !(pivot > 0.0 && pivot < f64::INFINITY) {
                return Err(NotPositive { row: k });
            }
            let root = pivot.sqrt();
            let inverse = 1.0 / root;
            row[from..].iter_mut().for_each(|value| *value *= inverse);
            row[k] = root;
        }
    }
    Ok(())
}

/// Solves Rᵀy = b in place; `factor` is R.
#[inline(always)]
pub(crate) fn solve_transposed(factor: &[f64], b: &mut [f64], rank: usize) {
    let stride = stride(rank);
    for k in 0..rank {
        let row = &factor[k * stride..][..stride];
        let y = b[k] / row[k];
        b[k] = y;
        for (to, value) in b[k + 1..rank].iter_mut().zip(&row[k + 1..rank]) {
            *to = (-y).mul_add(*value, *to);
        }
    }
}

/// Solves Rx = y in place; `factor` is R.
#[inline(always)]
pub(crate) fn solve(factor: &[f64], y: &mut [f64], rank: usize) {
    let stride = stride(rank);
    for k in (0..rank).rev() {
        let row = &factor[k * stride..][..stride];
        y[k] = (y[k] - dot(&row[k + 1..rank], &y[k + 1..rank])) / row[k];
    }
}

/// The inner product of two vectors of the same length, summed in a fixed order.
#[inline(always)]
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0f64; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] = a[lane].mul_add(b[lane], sums[lane]);
        }
    }
    let [s0, s1, s2, s3, s4, s5, s6, s7] = sums;
    let sum = ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7));
    a_rest.iter().zip(b_rest).fold(sum, |sum, (a, b)| a.mul_add(*b, sum))
}

/// `to += by · x`.
#[inline(always)]
pub(crate) fn add_scaled(to: &mut [f64], by: f64, x: &[f64]) {
    for (to, x) in to.iter_mut().zip(x) {
        *to = by.mul_add(*x, *to);
    }
}

#[cfg(test)]
#[expect(clippy::needless_range_loop, reason = "indices of matrices")]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use pulp::{Arch, Simd, WithSimd};

    /// Rows of numbers in (−1, 1), padded.
    fn rows(rank: usize, rows: usize, seed: u64) -> Vec<f64> {
        let mut x = vec![0.0; rows * stride(rank)];
        for (p, row) in x.chunks_exact_mut(stride(rank)).enumerate() {
            for (i, value) in row[..rank].iter_mut().enumerate() {
                let word = intendant_core::random::stream(seed, &[p as u64, i as u64]);
                *value = 2.0 * intendant_core::random::unit(word) - 1.0;
            }
        }
        x
    }

    /// A positive definite matrix and its elements as a dense array.
    #[inline(always)]
    fn positive(rank: usize, seed: u64) -> Vec<f64> {
        let x = rows(rank, 2 * rank, seed);
        let mut a = vec![0.0; rank * stride(rank)];
        // The last tile may reach beyond the last row.
        a.resize(rank.next_multiple_of(4) * stride(rank), 0.0);
        add_gram(&mut a, &x, 1.5, rank);
        for i in 0..rank {
            a[i * stride(rank) + i] += 0.1;
        }
        a
    }

    /// A Gram matrix, its factor, and a solution; returns the bits of the solution.
    #[derive(Clone, Copy)]
    struct All {
        rank: usize,
        seed: u64,
    }

    impl WithSimd for All {
        type Output = Vec<u64>;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> Vec<u64> {
            let Self { rank, seed } = self;
            let mut r = positive(rank, seed);
            factor(&mut r, rank).expect("positive");
            let mut b = rows(rank, 1, seed ^ 1);
            solve_transposed(&r, &mut b, rank);
            solve(&r, &mut b, rank);
            b.iter().map(|x| x.to_bits()).collect()
        }
    }

    proptest! {
        #[test]
        fn a_gram_matrix_is_the_sum_of_products(rank in 1usize..40, count in 0usize..9, seed: u64) {
            let x = rows(rank, count, seed);
            let s = stride(rank);
            let mut a = vec![1.0; rank.next_multiple_of(4) * s];
            add_gram(&mut a, &x, 0.5, rank);
            for i in 0..rank {
                for j in i..rank {
                    let sum: f64 = x.chunks_exact(s).map(|row| row[i] * row[j]).sum();
                    prop_assert!((a[i * s + j] - (1.0 + 0.5 * sum)).abs() < 1e-12);
                }
            }
        }

        #[test]
        fn factors_multiply_to_the_matrix_and_solutions_solve(rank in 1usize..=130, seed: u64) {
            let (s, a) = (stride(rank), positive(rank, seed));
            let mut r = a.clone();
            factor(&mut r, rank).expect("positive");
            let mut worst = 0.0f64;
            for i in 0..rank {
                for j in i..rank {
                    let product: f64 = (0..=i).map(|p| r[p * s + i] * r[p * s + j]).sum();
                    worst = worst.max((product - a[i * s + j]).abs());
                }
            }
            prop_assert!(worst < 1e-11 * rank as f64, "{worst}");
            let b = rows(rank, 1, seed ^ 1)[..rank].to_vec();
            let mut x = b.clone();
            solve_transposed(&r, &mut x, rank);
            solve(&r, &mut x, rank);
            let element = |i: usize, j: usize| a[i.min(j) * s + i.max(j)];
            for i in 0..rank {
                let found: f64 = (0..rank).map(|j| element(i, j) * x[j]).sum();
                prop_assert!((found - b[i]).abs() < 1e-8, "{found} {}", b[i]);
            }
        }

        /// The code for the oldest processors computes the same bits as the code that is chosen here.
        #[test]
        fn every_processor_computes_the_same_bits(rank in 1usize..70, seed: u64) {
            let all = All { rank, seed };
            prop_assert_eq!(all.with_simd(pulp::Scalar), Arch::new().dispatch(all));
        }
    }

    #[test]
    fn a_matrix_that_is_not_positive_is_refused_at_the_row() {
        let rank = 9;
        let mut a = positive(rank, 7);
        a[6 * stride(rank) + 6] = -1.0;
        assert_eq!(factor(&mut a, rank), Err(NotPositive { row: 6 }));
        for poison in [f64::NAN, f64::INFINITY] {
            let mut a = positive(rank, 7);
            a[3 * stride(rank) + 3] = poison;
            assert_eq!(factor(&mut a, rank), Err(NotPositive { row: 3 }));
        }
    }
}
