//! The default loss: softmax cross-entropy over candidates that all queries of a batch share.
//!
//! For a query, the target should score higher than every other entity. Instead of all entities, the
//! candidates are the entities of the batch and the shared samples. The former count once; each sample counts
//! for as many entities as there are outside of the batch per sample, so that the denominator estimates the
//! sum over all entities. A sample that is an entity of the batch is not a candidate twice.
//!
//! Everything expensive is a matrix product: one for the scores, two for the gradients.

use crate::batch::{Batch, Scratch};
use crate::matrix::{Into, Rows, RowsMut, multiply, multiply_transposed, transposed_multiply};
use intendant_core::Element;
use intendant_task::{Cost, Pulled, Update};

/// Adds the gradients of a batch's loss to the first halves of `update`; `scratch.queries` holds the queries,
/// and `scratch.d_queries` receives their gradients. Returns the sum of the losses, in nats, and the
/// arithmetic it took.
#[inline(always)]
pub(crate) fn gradients<E: Element>(
    batch: &Batch,
    scratch: &mut Scratch<E>,
    entities_total: u64,
    pulled: Pulled<'_, E>,
    update: &mut Update<'_, E>,
) -> (f64, Cost) {
    let (dim, stride) = (scratch.scorer.dim, 2 * scratch.scorer.dim);
    let (queries, near, sampled) = (batch.queries.len(), batch.entities, pulled.sample_keys.len());
    let candidates = near + sampled;
    scratch.scores.resize(queries * candidates, E::ZERO);
    let near_keys = &pulled.keys[..near];
    // A summand of the scores: the logarithm of the number of entities that a candidate counts for.
    let kept = pulled.sample_keys.iter().filter(|k| near_keys.binary_search(k).is_err()).count();
    let stands_for = (entities_total - near as u64) as f64 / kept.max(1) as f64;
    let (absent, sample) = (E::from_f64(f64::NEG_INFINITY), E::from_f64(stands_for.ln()));
    scratch.offsets.clear();
    scratch.offsets.resize(near, E::ZERO);
    scratch.offsets.extend(
        pulled.sample_keys.iter().map(|k| if near_keys.binary_search(k).is_ok() { absent } else { sample }),
    );

    let all_queries = Rows::new(&scratch.queries, queries, dim, dim);
    let near_rows = Rows::new(pulled.values, near, dim, stride);
    let sample_rows = Rows::new(pulled.sample_values, sampled, dim, stride);
    multiply_transposed(RowsMut::new(&mut scratch.scores, queries, near, candidates), all_queries, near_rows);
    if sampled > 0 {
        let scores = RowsMut::new(&mut scratch.scores[near..], queries, sampled, candidates);
        multiply_transposed(scores, all_queries, sample_rows);
    }

    let mut loss = 0.0;
    for (query, scores) in batch.queries.iter().zip(scratch.scores.chunks_exact_mut(candidates)) {
        let target_score = scores[query.target as usize];
        for (score, offset) in scores.iter_mut().zip(&scratch.offsets) {
            *score += *offset;
        }
        let largest = in_lanes(scores, absent, |a, b| if a > b { a } else { b });
        for score in scores.iter_mut() {
            *score = (*score - largest).exp();
        }
        let sum = in_lanes(scores, E::ZERO, |a, b| a + b);
        loss += sum.to_f64().ln() + (largest - target_score).to_f64();
        let scale = E::ONE / sum;
        for score in scores.iter_mut() {
            *score *= scale;
        }
        scores[query.target as usize] -= E::ONE;
    }

    let near_gradients = Rows::new(&scratch.scores, queries, near, candidates);
    let d_queries = RowsMut::new(&mut scratch.d_queries, queries, dim, dim);
    multiply(Into::Set, d_queries, near_gradients, near_rows);
    transposed_multiply(RowsMut::new(update.values, near, dim, stride), near_gradients, all_queries);
    if sampled > 0 {
        let sample_gradients = Rows::new(&scratch.scores[near..], queries, sampled, candidates);
        let d_queries = RowsMut::new(&mut scratch.d_queries, queries, dim, dim);
        multiply(Into::Add, d_queries, sample_gradients, sample_rows);
        let d_samples = RowsMut::new(update.sample_values, sampled, dim, stride);
        transposed_multiply(d_samples, sample_gradients, all_queries);
    }
    (loss, Cost((3 * queries * candidates * dim) as u64))
}

/// Combines all elements, starting from `neutral`, in independent lanes: a single chain of dependent
/// operations would take longer than the exponentials.
#[inline(always)]
fn in_lanes<E: Element>(elements: &[E], neutral: E, combine: impl Fn(E, E) -> E) -> E {
    const LANES: usize = 16;
    let mut lanes = [neutral; LANES];
    let chunks = elements.chunks_exact(LANES);
    let rest = chunks.remainder().iter().fold(neutral, |a, b| combine(a, *b));
    for chunk in chunks {
        for (lane, element) in lanes.iter_mut().zip(chunk) {
            *lane = combine(*lane, *element);
        }
    }
    lanes.iter().fold(rest, |a, b| combine(a, *b))
}
