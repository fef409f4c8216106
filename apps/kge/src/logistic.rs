//! The logistic loss of the parameter server papers: every query has negatives of its own.
//!
//! The loss of a triple is log(1 + e^(−score)) plus, for each of its negatives (the object or the subject
//! replaced by a sample), log(1 + e^score). Without reciprocal relations both queries of a triple give the
//! same score, and so the triple itself is counted once. A sample that is the replaced entity is skipped.
//!
//! Triples are trained one by one, in place; see [`crate::triple`].

use crate::batch::Batch;
use crate::model::AdaGrad;
use crate::triple::{AHEAD, Triple};
use intendant_core::{Element, Key};
use intendant_task::Rows;
use intendant_task::kernel::{Losses, elementwise, product};
use pulp::Simd;
use std::ops::Range;

/// Collects the gradients of the queries at `range`, which are those of one triple, and of the triple's
/// direct rows; trains the rows of its samples. Returns whether all scores are finite; stops at the first one
/// that is not.
#[inline(always)]
pub(crate) fn train<S: Simd, E: Element>(
    simd: S,
    (batch, range): (&Batch, Range<usize>),
    keys: &[Key],
    triple: &mut Triple<E>,
    losses: &mut Losses,
    adagrad: AdaGrad<E>,
    rows: &mut dyn Rows<E>,
) -> bool {
    let direct = batch.uses.len();
    let negatives = (keys.len() - direct) / batch.queries.len();
    for (query, composed) in batch.queries[range.clone()].iter().zip(&mut triple.queries) {
        if let Some(target) = composed.target.filter(|_| query.scores_triple) {
            let target = &mut triple.rows[target];
            let score = product(simd, &composed.vector, &target.embedding);
            if !score.finite() {
                return false;
            }
            let slope = losses.add(score, false);
            elementwise(
                [&mut target.gradient, &mut composed.gradient],
                [&composed.vector, &target.embedding],
                |[d_target, d_query], [query, target]| [d_target - slope * query, d_query - slope * target],
            );
        }
    }
    for (at, composed) in range.clone().zip(&mut triple.queries) {
        let answer = batch.answer(&batch.queries[at], keys);
        let first = direct + at * negatives;
        for (sample, key) in (first..).zip(&keys[first..first + negatives]) {
            rows.prefetch(sample + AHEAD);
            if *key == answer {
                continue;
            }
            // A sample whose key has moved away meanwhile is skipped.
            let Some(mut row) = rows.sample(sample) else { continue };
            let (embedding, sums) = row.split_at_mut(composed.vector.len());
            let score = product(simd, &composed.vector, embedding);
            if !score.finite() {
                return false;
            }
            let slope = losses.add(score, true);
            elementwise(
                [embedding, sums, &mut composed.gradient],
                [&composed.vector],
                |[parameter, sum, d_query], [query]| {
                    let [new, sum] = adagrad.adapt(parameter, sum, -slope * query);
                    [new, sum, d_query - slope * parameter]
                },
            );
        }
    }
    true
}

/// Multiply-adds of the scores and their gradients. `samples` is the number of samples of all queries
/// together.
pub(crate) const fn cost(queries: usize, samples: usize, dim: usize) -> u64 {
    (3 * (queries + samples) * dim) as u64
}
