//! The logistic loss of the parameter server papers: every query has negatives of its own.
//!
//! The loss of a triple is log(1 + e^(−score)) plus, for each of its negatives (the object or the subject replaced by a
//! sample), log(1 + e^score). Without reciprocal relations both queries of a triple give the same score, and so the triple
//! itself is counted once. A sample that is the replaced entity is skipped.

use crate::batch::{Batch, Scratch};
use crate::model::{add_scaled, dot};
use intendant_core::Element;
use intendant_task::{Cost, Pulled, Update};

/// Like [`crate::softmax::gradients`].
pub(crate) fn gradients<E: Element>(
    batch: &Batch,
    scratch: &mut Scratch<E>,
    pulled: Pulled<'_, E>,
    update: &mut Update<'_, E>,
) -> (f64, Cost) {
    let (dim, stride) = (scratch.scorer.dim, 2 * scratch.scorer.dim);
    let negatives = pulled.sample_keys.len() / batch.queries.len();
    let mut loss = 0.0;
    for (at, query) in batch.queries.iter().enumerate() {
        let composed = &scratch.queries[at * dim..][..dim];
        let d_query = &mut scratch.d_queries[at * dim..][..dim];
        d_query.fill(E::ZERO);
        let mut score = |label: f64, value: &[E], gradient: &mut [E]| {
            let (embedding, gradient) = (&value[..dim], &mut gradient[..dim]);
            let margin = label * dot(composed, embedding).to_f64();
            loss += softplus(-margin);
            let slope = E::from_f64(-label * logistic(-margin));
            add_scaled(gradient, slope, composed);
            add_scaled(d_query, slope, embedding);
        };
        if query.scores_triple {
            let target = query.target as usize * stride;
            score(1.0, &pulled.values[target..][..stride], &mut update.values[target..][..stride]);
        }
        let target_key = batch.answer(query, pulled.keys);
        for sample in at * negatives..(at + 1) * negatives {
            if pulled.sample_keys[sample] != target_key {
                let place = sample * stride..(sample + 1) * stride;
                score(-1.0, &pulled.sample_values[place.clone()], &mut update.sample_values[place]);
            }
        }
    }
    (loss, Cost((3 * batch.queries.len() * (negatives + 1) * dim) as u64))
}

/// log(1 + e^x), without overflow.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// 1 / (1 + e^(−x)), without overflow.
fn logistic(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
}
