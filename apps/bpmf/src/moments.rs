//! Sufficient statistics of rows: how many, their sum, the sum of their outer products.

use crate::linalg::{GATHERED, add_gram, add_scaled, stride};
use crate::tree::Merge;

/// Statistics of some rows of one side.
///
/// The statistics are sum and product instead of mean and covariance, because the statistics of a union are
/// the sum of the statistics of its parts, without cross terms. (The implementation that the thesis starts
/// from adds the scatter matrices of the processes around their own means, so that its result depends on
/// their number.)
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moments {
    /// Rows.
    pub(crate) count: f64,
    /// Σx, padded.
    pub(crate) sum: Vec<f64>,
    /// Σxxᵀ: the upper triangle of a padded matrix.
    pub(crate) product: Vec<f64>,
}

impl Moments {
    /// The statistics of an empty set of rows.
    pub(crate) fn new(rank: usize) -> Self {
        Self { count: 0.0, sum: vec![0.0; stride(rank)], product: vec![0.0; padded(rank) * stride(rank)] }
    }

    /// Replaces the statistics by those of `rows`. `scratch` is a buffer.
    #[inline(always)]
    pub(crate) fn measure<'a>(
        &mut self,
        rows: impl Iterator<Item = &'a [f64]>,
        rank: usize,
        scratch: &mut Vec<f64>,
    ) {
        let stride = stride(rank);
        self.count = 0.0;
        self.sum.fill(0.0);
        self.product.fill(0.0);
        scratch.clear();
        for row in rows {
            self.count += 1.0;
            add_scaled(&mut self.sum, 1.0, row);
            scratch.extend_from_slice(row);
            scratch.resize(scratch.len().next_multiple_of(stride), 0.0);
            if scratch.len() == GATHERED * stride {
                add_gram(&mut self.product, scratch, 1.0, rank);
                scratch.clear();
            }
        }
        add_gram(&mut self.product, scratch, 1.0, rank);
    }

    /// Number of numbers in the packed form.
    pub(crate) const fn words(rank: usize) -> usize {
        1 + rank + rank * (rank + 1) / 2
    }

    /// Appends count, sum and the upper triangle, row by row.
    pub(crate) fn pack(&self, rank: usize, out: &mut Vec<f64>) {
        out.push(self.count);
        out.extend_from_slice(&self.sum[..rank]);
        pack_upper(&self.product, rank, out);
    }

    /// The statistics that [`Moments::pack`] has appended.
    pub(crate) fn unpack(packed: &[f64], rank: usize) -> Self {
        let mut moments = Self::new(rank);
        moments.count = packed[0];
        moments.sum[..rank].copy_from_slice(&packed[1..=rank]);
        unpack_upper(&packed[1 + rank..], rank, &mut moments.product);
        moments
    }
}

/// Number of rows of a padded matrix: whole tiles.
pub(crate) const fn padded(rank: usize) -> usize {
    stride(rank)
}

/// Appends the upper triangle of a padded matrix, row by row.
pub(crate) fn pack_upper(matrix: &[f64], rank: usize, out: &mut Vec<f64>) {
    for (i, row) in matrix.chunks_exact(stride(rank)).take(rank).enumerate() {
        out.extend_from_slice(&row[i..rank]);
    }
}

/// Copies what [`pack_upper`] has appended to the upper triangle of a padded matrix.
pub(crate) fn unpack_upper(mut packed: &[f64], rank: usize, matrix: &mut [f64]) {
    for (i, row) in matrix.chunks_exact_mut(stride(rank)).take(rank).enumerate() {
        let (values, rest) = packed.split_at(rank - i);
        row[i..rank].copy_from_slice(values);
        packed = rest;
    }
}

impl Merge for Moments {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum.iter_mut().zip(&other.sum).for_each(|(to, x)| *to += x);
        self.product.iter_mut().zip(&other.product).for_each(|(to, x)| *to += x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_add_and_survive_packing() {
        let rank = 3;
        let rows: Vec<f64> = (0..100 * rank).map(|i| ((i * 37) % 19) as f64 / 4.0 - 2.0).collect();
        let of = |rows: &[f64]| {
            let mut moments = Moments::new(rank);
            moments.measure(rows.chunks_exact(rank), rank, &mut Vec::new());
            moments
        };
        let (mut first, second) = (of(&rows[..41 * rank]), of(&rows[41 * rank..]));
        first.merge(&second);
        // The numbers are multiples of a power of two, so that sums are exact in any order.
        let mut whole = Vec::new();
        of(&rows).pack(rank, &mut whole);
        let mut merged = Vec::new();
        first.pack(rank, &mut merged);
        assert_eq!(merged, whole);
        assert_eq!((whole.len(), whole[0]), (Moments::words(rank), 100.0));
        let product: f64 = rows.chunks_exact(rank).map(|x| x[1] * x[2]).sum();
        assert_eq!(whole[1 + rank + 4], product);
        let mut again = Vec::new();
        Moments::unpack(&whole, rank).pack(rank, &mut again);
        assert_eq!(again, whole);
    }
}
