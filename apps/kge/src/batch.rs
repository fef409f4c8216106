//! What a batch is made of: its queries, and the keys they need.

use crate::data::Triple;
use crate::model::{Penalties, adagrad, compose, compose_backward};
use intendant_core::{Element, Key};
use intendant_task::{Pulled, Update};

/// One question with its answer: which entity completes anchor and relation? Positions are those of the batch's direct keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// The entity that is given.
    pub(crate) anchor: u32,
    /// The relation, or its reciprocal.
    pub(crate) relation: u32,
    /// The entity that is asked for.
    pub(crate) target: u32,
    /// Whether the subject is asked for, by a relation that has no reciprocal.
    pub(crate) inverse: bool,
    /// Whether the score of the triple itself counts in this query; see [`crate::logistic`].
    pub(crate) scores_triple: bool,
}

/// A batch as it is prepared ahead of its training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Two queries per example: object, subject.
    pub(crate) queries: Vec<Query>,
    /// How many of the direct keys, at their beginning, are entities.
    pub(crate) entities: usize,
    /// How often each direct key is used: the number of penalties on it.
    pub(crate) uses: Vec<u32>,
}

impl Batch {
    /// The queries of `triples` and their distinct keys: entities first, each ascending. The key of relation `r` is
    /// `relations.0 + r`, that of its reciprocal `relations.1 + r` if there are any.
    pub(crate) fn new(triples: &[Triple], relations: (u64, Option<u64>)) -> (Self, Vec<Key>) {
        let (forward, reciprocal) = relations;
        let mut keys: Vec<Key> =
            triples.iter().flat_map(|t| [Key(t.subject.into()), Key(t.object.into())]).collect();
        keys.extend(triples.iter().map(|t| Key(forward + u64::from(t.relation))));
        if let Some(reciprocal) = reciprocal {
            keys.extend(triples.iter().map(|t| Key(reciprocal + u64::from(t.relation))));
        }
        // Keys of relations are larger than those of entities.
        keys.sort_unstable();
        keys.dedup();
        let place = |key: u64| keys.partition_point(|k| k.0 < key) as u32;
        let mut queries = Vec::with_capacity(2 * triples.len());
        for triple in triples {
            let (subject, object) = (place(triple.subject.into()), place(triple.object.into()));
            let relation = place(forward + u64::from(triple.relation));
            queries.push(Query {
                anchor: subject,
                relation,
                target: object,
                inverse: false,
                scores_triple: true,
            });
            let (relation, inverse) = match reciprocal {
                Some(reciprocal) => (place(reciprocal + u64::from(triple.relation)), false),
                None => (relation, true),
            };
            queries.push(Query {
                anchor: object,
                relation,
                target: subject,
                inverse,
                scores_triple: !inverse,
            });
        }
        let mut uses = vec![0; keys.len()];
        for query in &queries {
            for place in [query.anchor, query.relation, query.target] {
                uses[place as usize] += 1;
            }
        }
        let entities = keys.partition_point(|k| k.0 < forward);
        (Self { queries, entities, uses }, keys)
    }
}

/// Buffers of a worker.
#[derive(Debug)]
pub struct Scratch<E> {
    /// Real numbers per embedding.
    pub(crate) dim: usize,
    /// The queries' vectors.
    pub(crate) queries: Vec<E>,
    /// Their gradients.
    pub(crate) d_queries: Vec<E>,
    /// Scores of the queries' candidates, then their gradients.
    pub(crate) scores: Vec<E>,
    /// What is added to the scores of each candidate.
    pub(crate) offsets: Vec<E>,
    /// Sampled keys and their positions, sorted.
    samples: Vec<(Key, u32)>,
}

impl<E: Element> Scratch<E> {
    pub(crate) fn new(dim: usize) -> Self {
        let empty = Vec::new;
        Self {
            dim,
            queries: empty(),
            d_queries: empty(),
            scores: empty(),
            offsets: empty(),
            samples: Vec::new(),
        }
    }

    /// Computes the queries' vectors.
    pub(crate) fn compose(&mut self, batch: &Batch, values: &[E]) {
        let (dim, stride) = (self.dim, 2 * self.dim);
        self.queries.resize(batch.queries.len() * dim, E::ZERO);
        self.d_queries.resize(batch.queries.len() * dim, E::ZERO);
        for (query, vector) in batch.queries.iter().zip(self.queries.chunks_exact_mut(dim)) {
            let embedding = |place: u32| &values[place as usize * stride..][..dim];
            compose(embedding(query.anchor), embedding(query.relation), query.inverse, vector);
        }
    }

    /// Adds the gradients of anchors and relations that follow from those of the queries.
    pub(crate) fn compose_backward(&self, batch: &Batch, values: &[E], update: &mut [E]) {
        let (dim, stride) = (self.dim, 2 * self.dim);
        // Anchors are entities, so that their gradients lie before those of relations.
        let (d_entities, d_relations) = update.split_at_mut(batch.entities * stride);
        for (query, d_query) in batch.queries.iter().zip(self.d_queries.chunks_exact(dim)) {
            let (anchor, relation) = (query.anchor as usize * stride, query.relation as usize * stride);
            compose_backward(
                &values[anchor..][..dim],
                &values[relation..][..dim],
                query.inverse,
                d_query,
                &mut d_entities[anchor..][..dim],
                &mut d_relations[relation - batch.entities * stride..][..dim],
            );
        }
    }

    /// Adds the gradients of the penalties.
    pub(crate) fn penalise(&self, penalties: Penalties, batch: &Batch, values: &[E], update: &mut [E]) {
        let stride = 2 * self.dim;
        let rows = values.chunks_exact(stride).zip(update.chunks_exact_mut(stride));
        for (uses, (value, update)) in batch.uses.iter().zip(rows) {
            penalties.add_gradient(*uses, &value[..self.dim], &mut update[..self.dim]);
        }
    }

    /// Moves the gradient of a key that occurs more than once to its first occurrence: AdaGrad squares the sum of a key's
    /// gradients, not each of them.
    pub(crate) fn merge(&mut self, batch: &Batch, pulled: Pulled<'_, E>, update: &mut Update<'_, E>) {
        let (dim, stride) = (self.dim, 2 * self.dim);
        self.samples.clear();
        self.samples.extend(pulled.sample_keys.iter().enumerate().map(|(at, key)| (*key, at as u32)));
        self.samples.sort_unstable();
        let near = &pulled.keys[..batch.entities];
        let mut first: Option<(Key, usize)> = None;
        for &(key, at) in &self.samples {
            let at = at as usize * stride;
            if let Ok(place) = near.binary_search(&key) {
                let from = &mut update.sample_values[at..][..dim];
                move_into(&mut update.values[place * stride..][..dim], from);
            } else if let Some((_, to)) = first.filter(|(k, _)| *k == key) {
                // Equal keys are sorted by position: the first one comes before this one.
                let (head, tail) = update.sample_values.split_at_mut(at);
                move_into(&mut head[to..][..dim], &mut tail[..dim]);
            } else {
                first = Some((key, at));
            }
        }
    }

    /// Turns gradients into updates.
    pub(crate) fn adagrad(&self, learning_rate: f64, pulled: Pulled<'_, E>, update: &mut Update<'_, E>) {
        let stride = 2 * self.dim;
        let direct = pulled.values.chunks_exact(stride).zip(update.values.chunks_exact_mut(stride));
        let samples =
            pulled.sample_values.chunks_exact(stride).zip(update.sample_values.chunks_exact_mut(stride));
        for (value, update) in direct.chain(samples) {
            adagrad(learning_rate, value, update);
        }
    }
}

fn move_into<E: Element>(to: &mut [E], from: &mut [E]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += *from;
        *from = E::ZERO;
    }
}
