//! Hyperparameters: the mean and the precision of all rows of a side, drawn given the rows.
//!
//! [Salakhutdinov & Mnih 2008, section 3.2; equations 14]: a Gaussian-Wishart prior with mean 0, scale I.
//! With n rows of mean x̄ and scatter S = Σ(x − x̄)(x − x̄)ᵀ, the precision Λ has a Wishart distribution with
//! ν₀ + n degrees of freedom and scale (I + S + β₀n/(β₀+n) · x̄x̄ᵀ)⁻¹, and the mean μ given Λ is normal
//! around n·x̄/(β₀+n) with precision (β₀+n)Λ.

use crate::linalg::{NotPositive, add_gram, factor, solve, stride};
use crate::moments::{Moments, pack_upper, padded, unpack_upper};
use rand::Rng;
use rand_distr::{ChiSquared, Distribution, StandardNormal};

/// Drawn hyperparameters of one side, in the form that the drawing of rows needs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hyper {
    /// μ.
    pub(crate) mean: Vec<f64>,
    /// Λ: the upper triangle of a padded matrix.
    pub(crate) precision: Vec<f64>,
    /// Λμ.
    pub(crate) shift: Vec<f64>,
}

impl Hyper {
    /// Standard normal rows, until something is drawn.
    pub(crate) fn new(rank: usize) -> Self {
        let mut precision = vec![0.0; padded(rank) * stride(rank)];
        (0..rank).for_each(|i| precision[i * stride(rank) + i] = 1.0);
        Self { mean: vec![0.0; rank], precision, shift: vec![0.0; rank] }
    }

    fn from(mean: Vec<f64>, precision: Vec<f64>) -> Self {
        let (rank, stride) = (mean.len(), stride(mean.len()));
        let mut shift = vec![0.0; rank];
        for i in 0..rank {
            for j in i..rank {
                let value = precision[i * stride + j];
                shift[i] = value.mul_add(mean[j], shift[i]);
                if j > i {
                    shift[j] = value.mul_add(mean[i], shift[j]);
                }
            }
        }
        Self { mean, precision, shift }
    }

    /// Number of numbers in the packed form.
    pub(crate) const fn words(rank: usize) -> usize {
        rank + rank * (rank + 1) / 2
    }

    /// Appends mean and precision.
    pub(crate) fn pack(&self, out: &mut Vec<f64>) {
        out.extend_from_slice(&self.mean);
        pack_upper(&self.precision, self.mean.len(), out);
    }

    /// The hyperparameters that [`Hyper::pack`] has appended.
    pub(crate) fn unpack(packed: &[f64], rank: usize) -> Self {
        let mut precision = vec![0.0; padded(rank) * stride(rank)];
        unpack_upper(&packed[rank..], rank, &mut precision);
        Self::from(packed[..rank].to_vec(), precision)
    }
}

/// The prior's β₀ and ν₀.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prior {
    pub(crate) beta: f64,
    pub(crate) nu: f64,
}

/// Draws Λ and μ given the moments of the rows.
#[inline(always)]
pub(crate) fn draw(
    prior: Prior,
    moments: &Moments,
    rank: usize,
    random: &mut impl Rng,
) -> Result<Hyper, NotPositive> {
    let stride = stride(rank);
    let (n, Prior { beta, nu }) = (moments.count, prior);
    let mean: Vec<f64> = moments.sum[..rank].iter().map(|sum| if n > 0.0 { sum / n } else { 0.0 }).collect();
    // I + S + β₀n/(β₀+n) · x̄x̄ᵀ, with S = Σxxᵀ − n·x̄x̄ᵀ.
    let mut inverse_scale = moments.product.clone();
    let by = beta * n / (beta + n) - n;
    for i in 0..rank {
        for j in i..rank {
            inverse_scale[i * stride + j] += by * mean[i] * mean[j];
        }
        inverse_scale[i * stride + i] += 1.0;
    }
    let wishart = Wishart::draw(inverse_scale, nu + n, rank, random)?;
    let spread = wishart.spread(random, 1.0 / (beta + n).sqrt());
    let drawn = mean.iter().zip(spread).map(|(mean, spread)| n / (beta + n) * mean + spread).collect();
    Ok(Hyper::from(drawn, wishart.precision))
}

/// A matrix from a Wishart distribution.
pub(crate) struct Wishart {
    /// The matrix, TTᵀ with T = R⁻¹B: the upper triangle of a padded one.
    pub(crate) precision: Vec<f64>,
    /// R, the factor of the inverse scale.
    factor: Vec<f64>,
    /// B, lower triangular.
    bartlett: Vec<f64>,
    rank: usize,
}

impl Wishart {
    /// Draws with this number of degrees of freedom, by Bartlett's decomposition. Let B be lower triangular,
    /// its off-diagonal elements standard normal, and the square of its diagonal element i χ² with `degrees`
    /// − i degrees of freedom. Then CBBᵀCᵀ has the distribution for any C with CCᵀ = scale. C is R⁻¹ here.
    #[inline(always)]
    pub(crate) fn draw(
        inverse_scale: Vec<f64>,
        degrees: f64,
        rank: usize,
        random: &mut impl Rng,
    ) -> Result<Self, NotPositive> {
        let stride = stride(rank);
        let mut upper = inverse_scale;
        factor(&mut upper, rank)?;
        let mut bartlett = vec![0.0; rank * stride];
        for i in 0..rank {
            for j in 0..i {
                bartlett[i * stride + j] = StandardNormal.sample(random);
            }
            let square: f64 = match ChiSquared::new(degrees - i as f64) {
                Ok(distribution) => distribution.sample(random),
                Err(_) => return Err(NotPositive { row: i }),
            };
            bartlett[i * stride + i] = square.sqrt();
        }
        // RT = B, from the last row up; then Λ is the Gram matrix of Tᵀ.
        let mut t = bartlett.clone();
        for k in (0..rank).rev() {
            let (rows, below) = t.split_at_mut((k + 1) * stride);
            let row = &mut rows[k * stride..];
            for (j, below) in (k + 1..rank).zip(below.chunks_exact(stride)) {
                crate::linalg::add_scaled(row, -upper[k * stride + j], below);
            }
            let pivot = upper[k * stride + k];
            row.iter_mut().for_each(|value| *value /= pivot);
        }
        let mut turned = vec![0.0; rank * stride];
        for i in 0..rank {
            for j in 0..rank {
                turned[j * stride + i] = t[i * stride + j];
            }
        }
        let mut precision = vec![0.0; padded(rank) * stride];
        add_gram(&mut precision, &turned, 1.0, rank);
        clear_below(&mut precision, rank);
        Ok(Self { precision, factor: upper, bartlett, rank })
    }

    /// A normal vector with mean 0 and covariance by² · Λ⁻¹: by · RᵀB⁻ᵀz.
    #[inline(always)]
    fn spread(&self, random: &mut impl Rng, by: f64) -> Vec<f64> {
        let (rank, stride) = (self.rank, stride(self.rank));
        let z: Vec<f64> = (0..rank).map(|_| StandardNormal.sample(random)).collect();
        // Bᵀ is upper triangular.
        let mut turned = vec![0.0; rank * stride];
        for i in 0..rank {
            for j in 0..=i {
                turned[j * stride + i] = self.bartlett[i * stride + j];
            }
        }
        let mut w = z;
        solve(&turned, &mut w, rank);
        let mut spread = vec![0.0; rank];
        for (p, w) in w.iter().enumerate() {
            crate::linalg::add_scaled(
                &mut spread[p..],
                by * w,
                &self.factor[p * stride + p..p * stride + rank],
            );
        }
        spread
    }
}

/// Clears the elements below the diagonal, so that a matrix is the same no matter how it was computed.
fn clear_below(matrix: &mut [f64], rank: usize) {
    for (i, row) in matrix.chunks_exact_mut(stride(rank)).enumerate() {
        row[..i.min(rank)].fill(0.0);
    }
}

#[cfg(test)]
#[expect(clippy::needless_range_loop, reason = "indices of matrices")]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    /// The mean of a Wishart matrix is ν · W, the variance of element (i, j) ν · (w_ij² + w_ii · w_jj).
    #[test]
    fn the_mean_of_wishart_matrices_is_the_degrees_times_the_scale() {
        const RANK: usize = 3;
        const DRAWS: usize = 40_000;
        const NU: f64 = 5.5;
        let inverse = [[2.0, 0.6, -0.4], [0.6, 1.0, 0.3], [-0.4, 0.3, 1.5]];
        // The inverse of `inverse`, by cofactors.
        let minor = |i: usize, j: usize| {
            let (r, c) = ([(i + 1) % 3, (i + 2) % 3], [(j + 1) % 3, (j + 2) % 3]);
            inverse[r[0]][c[0]] * inverse[r[1]][c[1]] - inverse[r[0]][c[1]] * inverse[r[1]][c[0]]
        };
        let determinant: f64 = (0..3).map(|j| inverse[0][j] * minor(0, j)).sum();
        let scale = |i: usize, j: usize| minor(j, i) / determinant;
        let mut padded_inverse = vec![0.0; padded(RANK) * stride(RANK)];
        for i in 0..RANK {
            padded_inverse[i * stride(RANK)..][..RANK].copy_from_slice(&inverse[i]);
        }
        let mut random = Pcg64Mcg::seed_from_u64(5);
        let mut sums = [[0.0; RANK]; RANK];
        for _ in 0..DRAWS {
            let drawn = Wishart::draw(padded_inverse.clone(), NU, RANK, &mut random).expect("positive");
            for i in 0..RANK {
                for j in i..RANK {
                    sums[i][j] += drawn.precision[i * stride(RANK) + j];
                }
            }
        }
        for i in 0..RANK {
            for j in i..RANK {
                let variance = NU * (scale(i, j).powi(2) + scale(i, i) * scale(j, j));
                let z = (sums[i][j] / DRAWS as f64 - NU * scale(i, j)) / (variance / DRAWS as f64).sqrt();
                assert!(z.abs() < 4.0, "element {i}, {j}: z = {z}");
            }
        }
    }

    /// Given Λ, the mean has covariance (β + n)⁻¹Λ⁻¹. So (μ − m)ᵀ(β + n)Λ(μ − m) has a χ² distribution with K
    /// degrees of freedom, whatever Λ is.
    #[test]
    fn the_mean_spreads_as_the_precision_says() {
        const RANK: usize = 5;
        const DRAWS: usize = 20_000;
        let mut moments = Moments::new(RANK);
        let rows: Vec<f64> = (0..20 * RANK).map(|i| f64::from(i as u32 * 29 % 17) / 8.0 - 0.5).collect();
        moments.measure(rows.chunks_exact(RANK), RANK, &mut Vec::new());
        let (beta, n) = (2.0, 20.0);
        let mut random = Pcg64Mcg::seed_from_u64(6);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..DRAWS {
            let drawn = draw(Prior { beta, nu: 5.0 }, &moments, RANK, &mut random).expect("positive");
            let off: Vec<f64> = (0..RANK).map(|i| drawn.mean[i] - moments.sum[i] / (beta + n)).collect();
            let mut form = 0.0;
            for i in 0..RANK {
                for j in 0..RANK {
                    form += off[i] * off[j] * drawn.precision[i.min(j) * stride(RANK) + i.max(j)];
                }
            }
            sum += (beta + n) * form;
            squares += ((beta + n) * form).powi(2);
        }
        let (k, draws) = (RANK as f64, DRAWS as f64);
        let z = (sum / draws - k) / (2.0 * k / draws).sqrt();
        assert!(z.abs() < 4.0, "mean {}: z = {z}", sum / draws);
        // The second moment of χ² is k² + 2k; the variance of its estimate follows from the fourth moment.
        let fourth = k * (k + 2.0) * (k + 4.0) * (k + 6.0);
        let second = k * (k + 2.0);
        let z = (squares / draws - second) / ((fourth - second * second) / draws).sqrt();
        assert!(z.abs() < 4.0, "second moment: z = {z}");
    }

    /// E[Λ] = (ν₀ + n)(I + S + β₀n/(β₀+n) · x̄x̄ᵀ)⁻¹; the test computes S as the scatter around the mean.
    /// Without rows, E[Λ] = ν₀ · I.
    #[test]
    fn the_precision_has_the_mean_that_prior_and_rows_say() {
        const DRAWS: usize = 40_000;
        let (beta, nu) = (2.0, 4.0);
        let rows = [[0.5, -1.0], [2.0, 0.25], [-0.5, 1.5], [1.0, 1.0], [0.0, -0.75]];
        for n in [0, rows.len()] {
            let rows = &rows[..n];
            let of = |k: usize| rows.iter().map(|row| row[k]).sum::<f64>() / (n as f64).max(1.0);
            let mean = [of(0), of(1)];
            let weight = beta * n as f64 / (beta + n as f64);
            let element = |i: usize, j: usize| {
                let scatter: f64 = rows.iter().map(|row| (row[i] - mean[i]) * (row[j] - mean[j])).sum();
                f64::from(u8::from(i == j)) + scatter + weight * mean[i] * mean[j]
            };
            let (a, b, c) = (element(0, 0), element(0, 1), element(1, 1));
            let determinant = a * c - b * b;
            let scale = [[c / determinant, -b / determinant], [-b / determinant, a / determinant]];

            let mut moments = Moments::new(2);
            moments.measure(rows.iter().map(|row| &row[..]), 2, &mut Vec::new());
            let mut random = Pcg64Mcg::seed_from_u64(7);
            let mut sums = [[0.0; 2]; 2];
            for _ in 0..DRAWS {
                let drawn = draw(Prior { beta, nu }, &moments, 2, &mut random).expect("positive");
                for (i, j) in [(0, 0), (0, 1), (1, 1)] {
                    sums[i][j] += drawn.precision[i * stride(2) + j];
                }
            }
            let degrees = nu + n as f64;
            for (i, j) in [(0, 0), (0, 1), (1, 1)] {
                let variance = degrees * (scale[i][j].powi(2) + scale[i][i] * scale[j][j]);
                let off = sums[i][j] / DRAWS as f64 - degrees * scale[i][j];
                let z = off / (variance / DRAWS as f64).sqrt();
                assert!(z.abs() < 4.0, "element {i}, {j} of {n} rows: z = {z}");
            }
        }
    }

    #[test]
    fn packed_hyperparameters_are_the_same() {
        const RANK: usize = 11;
        let mut moments = Moments::new(RANK);
        let rows: Vec<f64> = (0..9 * RANK).map(|i| f64::from(i as u32 * 29 % 17) / 8.0).collect();
        moments.measure(rows.chunks_exact(RANK), RANK, &mut Vec::new());
        let prior = Prior { beta: 2.0, nu: 11.0 };
        let drawn = draw(prior, &moments, RANK, &mut Pcg64Mcg::seed_from_u64(1)).expect("positive");
        let mut packed = Vec::new();
        drawn.pack(&mut packed);
        assert_eq!(packed.len(), Hyper::words(RANK));
        assert_eq!(Hyper::unpack(&packed, RANK), drawn);
    }
}
