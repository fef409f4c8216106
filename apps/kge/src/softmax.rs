//! The default loss: softmax cross-entropy over candidates that all queries of a batch share.
//!
//! For a query, the target should score higher than every other entity. Instead of all entities, the
//! candidates are the entities of the batch and the shared samples. An entity of the batch counts once. A
//! sample stands for several entities: the number of entities outside the batch, divided by the number of
//! samples. So the denominator estimates the sum over all entities. A sample that is an entity of the batch
//! is not a second candidate.
//!
//! All expensive computations are matrix products: one for the scores, two for the gradients. The matrices
//! consist of copies of the values. A batch of one triple has two queries, too few for a matrix product. It
//! is trained in place (see [`crate::triple`]).

use crate::batch::Batch;
use crate::model::AdaGrad;
use crate::scratch::Scratch;
use crate::triple::AHEAD;
use intendant_core::{Element, Key};
use intendant_task::kernel::{elementwise, product};
use intendant_task::{Cost, Pulled, Update};
use intendant_trained::product::{Into, Rows, RowsMut, multiply, multiply_transposed, transposed_multiply};
use pulp::Simd;

/// Adds the gradients of a batch's loss to the first halves of `update`; `scratch.queries` holds the queries,
/// and `scratch.d_queries` receives their gradients. Returns the sum of the losses, in nats, and the cost of
/// the arithmetic.
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
    weigh(&mut scratch.offsets, &pulled.keys[..near], pulled.sample_keys, entities_total);

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
        loss += cross_entropy(scores, &scratch.offsets, query.target as usize);
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
    (loss, Cost(cost(queries, candidates, dim)))
}

/// Multiply-adds of the scores and their gradients.
pub(crate) const fn cost(queries: usize, candidates: usize, dim: usize) -> u64 {
    (3 * queries * candidates * dim) as u64
}

/// Collects the gradients of queries and direct rows of a batch of one triple, and trains the rows of the
/// samples in place. It visits each row twice: first for the scores, then to change it. Returns the sum of
/// the losses, in nats; if it is not finite, no row has been changed.
#[inline(always)]
pub(crate) fn train<S: Simd, E: Element>(
    simd: S,
    batch: &Batch,
    scratch: &mut Scratch<E>,
    entities_total: u64,
    keys: &[Key],
    adagrad: AdaGrad<E>,
    rows: &mut dyn intendant_task::Rows<E>,
) -> f64 {
    let Scratch { triple, scores, offsets, .. } = scratch;
    let (near, direct) = (batch.entities, batch.uses.len());
    let sample_keys = &keys[direct..];
    let candidates = near + sample_keys.len();
    weigh(offsets, &keys[..near], sample_keys, entities_total);
    // A skipped sample must not keep its score from the last batch, which need not be finite.
    scores.clear();
    scores.resize(2 * candidates, E::ZERO);
    let (of_object, of_subject) = scores.split_at_mut(candidates);
    let is_skipped = |offsets: &[E], sample: usize| !offsets[near + sample].finite();
    let [object, subject] = &mut triple.queries;

    let entities = triple.rows[..triple.used].iter_mut().filter(|row| (row.place as usize) < near);
    for row in entities {
        of_object[row.place as usize] = product(simd, &object.vector, &row.embedding);
        of_subject[row.place as usize] = product(simd, &subject.vector, &row.embedding);
    }
    for sample in 0..sample_keys.len() {
        rows.prefetch(direct + sample + AHEAD);
        if !is_skipped(offsets, sample) {
            let row = rows.row(direct + sample);
            of_object[near + sample] = product(simd, &object.vector, &row[..object.vector.len()]);
            of_subject[near + sample] = product(simd, &subject.vector, &row[..subject.vector.len()]);
        }
    }

    let target = |at: usize| batch.queries[at].target as usize;
    let loss = cross_entropy(of_object, offsets, target(0)) + cross_entropy(of_subject, offsets, target(1));
    if !loss.is_finite() {
        return loss;
    }

    let entities = triple.rows[..triple.used].iter_mut().filter(|row| (row.place as usize) < near);
    for row in entities {
        let (a, b) = (of_object[row.place as usize], of_subject[row.place as usize]);
        elementwise(
            [&mut row.gradient, &mut object.gradient, &mut subject.gradient],
            [&row.embedding, &object.vector, &subject.vector],
            |[d_row, d_object, d_subject], [row, object, subject]| {
                [d_row + a * object + b * subject, d_object + a * row, d_subject + b * row]
            },
        );
    }
    for sample in 0..sample_keys.len() {
        rows.prefetch(direct + sample + AHEAD);
        if is_skipped(offsets, sample) {
            continue;
        }
        let (a, b) = (of_object[near + sample], of_subject[near + sample]);
        let mut row = rows.row(direct + sample);
        let (embedding, sums) = row.split_at_mut(object.vector.len());
        elementwise(
            [embedding, sums, &mut object.gradient, &mut subject.gradient],
            [&object.vector, &subject.vector],
            |[row, sum, d_object, d_subject], [object, subject]| {
                let [new, sum] = adagrad.adapt(row, sum, a * object + b * subject);
                [new, sum, d_object + a * row, d_subject + b * row]
            },
        );
    }
    loss
}

/// Computes what is added to the score of each candidate: the logarithm of the number of entities that the
/// candidate stands for.
fn weigh<E: Element>(offsets: &mut Vec<E>, near: &[Key], samples: &[Key], entities_total: u64) {
    let is_near = |key: &Key| near.binary_search(key).is_ok();
    let kept = samples.iter().filter(|key| !is_near(key)).count();
    let stands_for = (entities_total - near.len() as u64) as f64 / kept.max(1) as f64;
    let (absent, sample) = (E::from_f64(f64::NEG_INFINITY), E::from_f64(stands_for.ln()));
    offsets.clear();
    offsets.resize(near.len(), E::ZERO);
    offsets.extend(samples.iter().map(|key| if is_near(key) { absent } else { sample }));
}

/// Turns the scores of a query's candidates into their gradients. Returns the loss, in nats.
#[inline(always)]
fn cross_entropy<E: Element>(scores: &mut [E], offsets: &[E], target: usize) -> f64 {
    let target_score = scores[target];
    for (score, offset) in scores.iter_mut().zip(offsets) {
        *score += *offset;
    }
    let least = E::from_f64(f64::NEG_INFINITY);
    let largest = in_lanes(scores, least, |a, b| if a > b { a } else { b });
    for score in scores.iter_mut() {
        *score = (*score - largest).exp();
    }
    let sum = in_lanes(scores, E::ZERO, |a, b| a + b);
    let scale = E::ONE / sum;
    for score in scores.iter_mut() {
        *score *= scale;
    }
    scores[target] -= E::ONE;
    sum.to_f64().ln() + (largest - target_score).to_f64()
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
