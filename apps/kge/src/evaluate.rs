//! Link prediction: at which rank is the true answer?
//!
//! For every held-out triple both the object and the subject are predicted: all entities are ranked by score,
//! other true answers (of train, valid and test) are left out, and the rank of the answer is 1 + the number
//! of entities with a higher score + half the number of others with the same score (the mean of the ranks
//! that ties allow; a model that gives every entity the same score gains nothing). A score that is not a
//! number counts as higher. Reported are the mean reciprocal rank, the mean rank, and the shares of answers
//! at rank 1, up to 3, up to 10.
//!
//! The held-out loss is the logistic loss of a prediction: of the true answer, and of [`CORRUPTED`] other
//! entities. These are drawn uniformly, by a hash of the triple; drawn entities that are true answers do not
//! count. So all runs on the same data judge the same entities, whatever negatives they trained with, and
//! losses of different techniques and sampling schemes can be compared.
//!
//! The score that decides is the inner product in double precision, in a fixed order of summation, so that
//! ranks depend neither on blocks nor on threads nor on the processor. Most scores need less precision: a
//! matrix product in the element type decides on which side of the answer's score an entity is, unless the
//! difference is within the bound of the rounding error.
//!
//! The evaluation receives entities in parts ([`Evaluation::part`]); its memory is proportional to the number
//! of held-out triples.

use crate::data::{Answers, Known, Triple};
use crate::model::Scorer;
use intendant_core::{Element, Key, random};
use intendant_task::{Evaluation, Partition, Reduction};
use intendant_trained::product::{Rows, RowsMut, multiply_transposed};
use intendant_trained::{norm, rounding_bound, score};
use std::ops::Range;
use std::sync::Arc;

/// Queries of one matrix product. The other factor is a part of the entities, whose size the sender limits.
/// The scores of this many queries and a thousand entities fit into the cache.
const QUERIES_PER_BLOCK: usize = 64;

/// Minimum number of triples per evaluating worker, if there are enough. Each evaluating worker reads all
/// entities, which costs as much as ranking a few dozen triples.
const TRIPLES_PER_WORKER_MIN: usize = 256;

/// The triples that a worker evaluates. If there are few, some workers evaluate none; the others are spread
/// over all nodes.
pub(crate) fn share(triples: &[Triple], partition: Partition) -> Vec<Triple> {
    let (worker, workers) = (partition.worker as usize, partition.workers as usize);
    let evaluating = (triples.len() / TRIPLES_PER_WORKER_MIN).clamp(1, workers);
    // The `at`-th evaluating worker is worker `at * workers / evaluating`.
    let at = (worker * evaluating).div_ceil(workers);
    if at == evaluating || at * workers / evaluating != worker {
        return Vec::new();
    }
    triples.iter().skip(at).step_by(evaluating).copied().collect()
}

/// Entities per prediction, besides the answer, for which the held-out loss is computed.
const CORRUPTED: usize = 10;

/// The stream of random numbers that chooses these entities.
const CORRUPTION: u64 = 0x6865_6c64;

/// One worker's share of a link prediction.
pub struct Ranking<E> {
    known: Arc<Known>,
    scorer: Scorer,
    threads: usize,
    range: Range<u64>,
    /// Entities, then relations.
    keys: Vec<Key>,
    ranked: Vec<Ranked>,
    /// The queries' vectors.
    queries: Vec<E>,
}

/// A prediction and the part of its rank that is known so far.
struct Ranked {
    /// Entities that are not ranked.
    answers: Answers,
    /// Keys of the entity that is given, of the relation and of the answer.
    anchor: u64,
    relation: u64,
    answer: u64,
    inverse: bool,
    /// Score of the answer.
    score: f64,
    /// Length of the query's vector.
    norm: f64,
    higher: u64,
    equal: u64,
    /// Entities for which the held-out loss is computed, and their losses.
    corrupted: [u32; CORRUPTED],
    losses: [f64; CORRUPTED],
}

impl<E: Element> Ranking<E> {
    /// Predicts object and subject of each of `triples` among the entities `0..entities`. `relations` are the
    /// first keys of the relations and of their reciprocals, if there are any.
    pub fn new(
        known: Arc<Known>,
        triples: &[Triple],
        entities: u64,
        relations: (u64, Option<u64>),
        scorer: Scorer,
        threads: usize,
    ) -> Self {
        let mut ranked = Vec::with_capacity(2 * triples.len());
        for triple in triples {
            let (subject, object) = (u64::from(triple.subject), u64::from(triple.object));
            let relation = relations.0 + u64::from(triple.relation);
            let corrupted = |side: u64| {
                let number = |at: usize| {
                    let parts = [subject, triple.relation.into(), object, side, at as u64];
                    (random::stream(CORRUPTION, &parts) % entities) as u32
                };
                std::array::from_fn(number)
            };
            let ask = |answers, anchor, relation, answer, inverse| Ranked {
                answers,
                anchor,
                relation,
                answer,
                inverse,
                score: 0.0,
                norm: 0.0,
                higher: 0,
                equal: 0,
                corrupted: corrupted(answer),
                losses: [0.0; CORRUPTED],
            };
            let answers = known.objects(triple.subject, triple.relation);
            ranked.push(ask(answers, subject, relation, object, false));
            let reciprocal = relations.1.map(|first| first + u64::from(triple.relation));
            let answers = known.subjects(triple.relation, triple.object);
            ranked.push(ask(answers, object, reciprocal.unwrap_or(relation), subject, reciprocal.is_none()));
        }
        let mut keys: Vec<Key> =
            ranked.iter().flat_map(|r| [r.anchor, r.relation, r.answer]).map(Key).collect();
        keys.sort_unstable();
        keys.dedup();
        Self { known, scorer, threads: threads.max(1), range: 0..entities, keys, ranked, queries: Vec::new() }
    }
}

impl<E: Element> Evaluation<E> for Ranking<E> {
    fn keys(&self) -> &[Key] {
        &self.keys
    }

    fn take(&mut self, values: &[E]) {
        let (scorer, dim) = (self.scorer, self.scorer.dim);
        let entities = self.keys.partition_point(|k| k.0 < self.range.end);
        self.queries.resize(self.ranked.len() * dim, E::ZERO);
        for (ranked, query) in self.ranked.iter_mut().zip(self.queries.chunks_exact_mut(dim)) {
            let embedding = |key: u64| {
                let at = self.keys.partition_point(|k| k.0 < key);
                &values[scorer.embedding(entities, at)]
            };
            scorer.compose(embedding(ranked.anchor), embedding(ranked.relation), ranked.inverse, query);
            ranked.score = score(query, embedding(ranked.answer));
            ranked.norm = norm(query);
        }
    }

    fn range(&self) -> Range<u64> {
        if self.ranked.is_empty() { 0..0 } else { self.range.clone() }
    }

    fn part(&mut self, keys: &[Key], values: &[E]) {
        if keys.is_empty() {
            return;
        }
        let dim = self.scorer.dim;
        let norms: Vec<f64> = values.chunks_exact(2 * dim).map(|value| norm(&value[..dim])).collect();
        let mut positions: Vec<(u32, usize)> =
            keys.iter().enumerate().filter_map(|(at, key)| Some((u32::try_from(key.0).ok()?, at))).collect();
        positions.sort_unstable();
        let part = &Part { positions: &positions, values, norms: &norms, known: &self.known, dim };
        let per_thread = self.ranked.len().div_ceil(self.threads);
        let mut shares =
            self.ranked.chunks_mut(per_thread.max(1)).zip(self.queries.chunks(per_thread.max(1) * dim));
        // This thread ranks the last share: with one thread, no other is started.
        let own = shares.next_back();
        std::thread::scope(|scope| {
            for (ranked, queries) in shares {
                scope.spawn(move || part.rank(ranked, queries));
            }
            if let Some((ranked, queries)) = own {
                part.rank(ranked, queries);
            }
        });
    }

    fn finish(self: Box<Self>) -> Reduction {
        let mut sums = Reduction::default();
        for ranked in &self.ranked {
            let rank = 1.0 + ranked.higher as f64 + 0.5 * ranked.equal as f64;
            sums.add("quality.mrr_filtered", 1.0 / rank);
            sums.add("quality.mean_rank_filtered", rank);
            for (name, last) in
                [("quality.hits_at_1", 1.0), ("quality.hits_at_3", 3.0), ("quality.hits_at_10", 10.0)]
            {
                sums.add(name, f64::from(u8::from(rank <= last)));
            }
            let corrupted: f64 = ranked.losses.iter().sum();
            sums.add("quality.heldout_loss", softplus(-ranked.score) + corrupted);
            sums.add("quality.count", 1.0);
        }
        sums
    }
}

/// A part of the entities.
struct Part<'a, E> {
    /// Entities and their positions in the part, sorted.
    positions: &'a [(u32, usize)],
    values: &'a [E],
    /// Lengths of the embeddings.
    norms: &'a [f64],
    known: &'a Known,
    dim: usize,
}

/// An entity's score compared with the answer's, according to the matrix product.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rough {
    Lower,
    /// Too close to call, or not a number.
    Near,
    Higher,
}

impl<E: Element> Part<'_, E> {
    /// Ranks the answers of some predictions among the entities of this part.
    fn rank(&self, ranked: &mut [Ranked], queries: &[E]) {
        let (dim, stride, entities) = (self.dim, 2 * self.dim, self.norms.len());
        let mut scores = vec![E::ZERO; QUERIES_PER_BLOCK * entities];
        let mut left_out = Vec::new();
        let blocks = ranked.chunks_mut(QUERIES_PER_BLOCK).zip(queries.chunks(QUERIES_PER_BLOCK * dim));
        for (ranked, queries) in blocks {
            multiply_transposed(
                RowsMut::new(&mut scores, ranked.len(), entities, entities),
                Rows::new(queries, ranked.len(), dim, dim),
                Rows::new(self.values, entities, dim, stride),
            );
            let rows = ranked.iter_mut().zip(queries.chunks_exact(dim));
            for ((ranked, query), scores) in rows.zip(scores.chunks_exact(entities)) {
                self.leave_out(ranked, &mut left_out);
                self.judge(ranked, query, &left_out);
                self.count(ranked, query, scores, &left_out);
            }
        }
    }

    /// The positions of the answer and of all other true answers, sorted.
    fn leave_out(&self, ranked: &Ranked, left_out: &mut Vec<usize>) {
        left_out.clear();
        let (Some((first, _)), Some((last, _))) = (self.positions.first(), self.positions.last()) else {
            return;
        };
        let answers =
            self.known.entities(&ranked.answers, *first..=*last).chain(u32::try_from(ranked.answer).ok());
        left_out.extend(answers.filter_map(|entity| {
            let place = self.positions.binary_search_by_key(&entity, |p| p.0).ok()?;
            Some(self.positions[place].1)
        }));
        left_out.sort_unstable();
        left_out.dedup();
    }

    /// Computes the losses of the corrupted entities that are in this part.
    fn judge(&self, ranked: &mut Ranked, query: &[E], left_out: &[usize]) {
        for (entity, loss) in ranked.corrupted.iter().zip(&mut ranked.losses) {
            let Ok(place) = self.positions.binary_search_by_key(entity, |p| p.0) else { continue };
            let at = self.positions[place].1;
            if left_out.binary_search(&at).is_err() {
                *loss = softplus(score(query, &self.values[at * 2 * self.dim..][..self.dim]));
            }
        }
    }

    /// Counts the entities that score at least as high as the answer.
    fn count(&self, ranked: &mut Ranked, query: &[E], scores: &[E], left_out: &[usize]) {
        // No rounding error exceeds this factor times the length of the entity's embedding.
        let error = ranked.norm * rounding_bound::<E>(self.dim);
        let answer = ranked.score;
        let compare = |rough: E, norm: f64| {
            let difference = rough.to_f64() - answer;
            let within = error * norm;
            // A value that overflows the element type may be finite in double precision.
            if difference > within && difference < f64::INFINITY {
                Rough::Higher
            } else if difference < -within && difference > f64::NEG_INFINITY {
                Rough::Lower
            } else {
                Rough::Near
            }
        };
        let (mut higher, mut near) = (0u64, 0u64);
        for (rough, norm) in scores.iter().zip(self.norms) {
            let rough = compare(*rough, *norm);
            higher += u64::from(rough == Rough::Higher);
            near += u64::from(rough == Rough::Near);
        }
        for at in left_out {
            let rough = compare(scores[*at], self.norms[*at]);
            higher -= u64::from(rough == Rough::Higher);
            near -= u64::from(rough == Rough::Near);
        }
        ranked.higher += higher;
        if near == 0 {
            return;
        }
        for (at, (rough, norm)) in scores.iter().zip(self.norms).enumerate() {
            if compare(*rough, *norm) == Rough::Near && left_out.binary_search(&at).is_err() {
                let exact = score(query, &self.values[at * 2 * self.dim..][..self.dim]);
                if exact == answer {
                    ranked.equal += 1;
                } else if exact < answer {
                    // The rough score was as high only because of rounding.
                } else {
                    ranked.higher += 1;
                }
            }
        }
    }
}

/// The logistic loss of an entity with this score that is not an answer; for an answer, pass the negative
/// score.
fn softplus(score: f64) -> f64 {
    score.max(0.0) + (-score.abs()).exp().ln_1p()
}

#[cfg(test)]
#[path = "evaluate_tests.rs"]
mod tests;
