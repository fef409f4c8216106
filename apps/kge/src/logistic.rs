//! The logistic loss of the parameter server papers: every query has negatives of its own.
//!
//! The loss of a triple is log(1 + e^(−score)) plus, for each of its negatives (the object or the subject
//! replaced by a sample), log(1 + e^score). Without reciprocal relations both queries of a triple give the
//! same score, and so the triple itself is counted once. A sample that is the replaced entity is skipped.

use crate::batch::{Batch, Scratch};
use intendant_core::Element;
use intendant_task::kernel::{Losses, dot, elementwise};
use intendant_task::{Cost, Pulled, Update};

/// Like [`crate::softmax::gradients`].
#[inline(always)]
pub(crate) fn gradients<E: Element>(
    batch: &Batch,
    scratch: &mut Scratch<E>,
    pulled: Pulled<'_, E>,
    update: &mut Update<'_, E>,
) -> (f64, Cost) {
    let (dim, stride) = (scratch.scorer.dim, 2 * scratch.scorer.dim);
    let negatives = pulled.sample_keys.len() / batch.queries.len();
    let mut losses = Losses::new();
    for (at, query) in batch.queries.iter().enumerate() {
        let composed = &scratch.queries[at * dim..][..dim];
        let d_query = &mut scratch.d_queries[at * dim..][..dim];
        d_query.fill(E::ZERO);
        if query.scores_triple {
            let target = query.target as usize * stride;
            let (embedding, gradient) =
                (&pulled.values[target..][..dim], &mut update.values[target..][..dim]);
            score(&mut losses, false, (composed, d_query), (embedding, gradient));
        }
        let target_key = batch.answer(query, pulled.keys);
        for sample in at * negatives..(at + 1) * negatives {
            if pulled.sample_keys[sample] != target_key {
                let place = sample * stride..sample * stride + dim;
                let (embedding, gradient) =
                    (&pulled.sample_values[place.clone()], &mut update.sample_values[place]);
                score(&mut losses, true, (composed, d_query), (embedding, gradient));
            }
        }
    }
    (losses.total(), Cost((3 * batch.queries.len() * (negatives + 1) * dim) as u64))
}

/// Scores a candidate, and adds the gradients of its loss to those of the query and of the candidate.
#[inline(always)]
fn score<E: Element>(
    losses: &mut Losses,
    is_sample: bool,
    (query, d_query): (&[E], &mut [E]),
    (embedding, gradient): (&[E], &mut [E]),
) {
    let slope = losses.add(dot(query, embedding), is_sample);
    elementwise([gradient, d_query], [query, embedding], |[gradient, d_query], [query, embedding]| {
        [gradient - slope * query, d_query - slope * embedding]
    });
}
