//! The inner product that decides, and how far a faster one may be from it.

use intendant_core::{Element, ElementType};

/// The inner product in double precision, always summed in the same order.
///
/// # Panics
/// Never: of vectors with different lengths, the longer one is cut.
#[must_use]
pub fn score<E: Element>(query: &[E], row: &[E]) -> f64 {
    let mut sums = [0.0; 8];
    let (queries, rows) = (query.chunks_exact(8), row.chunks_exact(8));
    let rest = queries.remainder().iter().zip(rows.remainder());
    let rest: f64 = rest.fold(0.0, |sum, (q, e)| sum + q.to_f64() * e.to_f64());
    for (query, row) in queries.zip(rows) {
        for lane in 0..8 {
            sums[lane] += query[lane].to_f64() * row[lane].to_f64();
        }
    }
    sums.iter().fold(rest, |sum, s| sum + s)
}

/// Length of a vector.
#[must_use]
pub fn norm<E: Element>(vector: &[E]) -> f64 {
    score(vector, vector).sqrt()
}

/// Twice the bound on the relative error of an inner product of `len` terms in any order of summation, which
/// leaves room for the rounding of [`score`]. The error is relative to the product of the two lengths.
#[must_use]
pub fn rounding_bound<E: Element>(len: usize) -> f64 {
    let epsilon = match E::TYPE {
        ElementType::F32 => f64::from(f32::EPSILON),
        ElementType::F64 => f64::EPSILON,
    };
    // EPSILON is twice the unit roundoff.
    (len + 1) as f64 * epsilon
}
