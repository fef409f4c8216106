//! A batch: its queries, and the keys that they need.

use crate::data::Triple;
use crate::model::{AdaGrad, Penalties, Scorer};
use crate::triple;
use intendant_core::{Element, Key};
use intendant_task::{Pulled, Update};
use pulp::Arch;
use smallvec::{SmallVec, smallvec};

/// One question with its answer: which entity completes anchor and relation? Positions are those of the
/// batch's direct keys.
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

/// A batch, prepared before it is trained. What a single score needs lies within it: loaders prepare
/// thousands of them ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Two queries per example: object, subject.
    pub(crate) queries: SmallVec<[Query; 1]>,
    /// How many of the direct keys, at their beginning, are entities.
    pub(crate) entities: usize,
    /// How often each direct key is used: the number of penalties on it.
    pub(crate) uses: SmallVec<[u32; 4]>,
    /// Number of triples that the batch counts as trained.
    pub(crate) examples: u64,
    /// The answer's key if it is none of the direct keys: in a step that trains one corrupted triple.
    pub(crate) answer: Option<Key>,
}

/// The triple that a step trains, if each score is a step of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scored {
    /// The triple.
    Triple,
    /// The triple with another object.
    OtherObject,
    /// The triple with another subject.
    OtherSubject,
}

impl Scored {
    /// The triple that the `at`-th step of a triple trains, with so many negatives per side. The triple
    /// itself comes first.
    pub(crate) const fn nth(at: u64, negatives: u64) -> Self {
        match at {
            0 => Self::Triple,
            at if at <= negatives => Self::OtherObject,
            _ => Self::OtherSubject,
        }
    }
}

impl Batch {
    /// One score of `triple`, and its keys, entities first. The key of relation `r` is `forward + r`.
    pub(crate) fn of_score(triple: &Triple, forward: u64, scored: Scored) -> (Self, Vec<Key>) {
        let (subject, object) = (Key(triple.subject.into()), Key(triple.object.into()));
        let mut keys = Vec::with_capacity(3);
        match scored {
            Scored::Triple => keys.extend([subject.min(object), subject.max(object)]),
            Scored::OtherObject => keys.push(subject),
            Scored::OtherSubject => keys.push(object),
        }
        keys.dedup();
        let entities = keys.len();
        keys.push(Key(forward + u64::from(triple.relation)));
        let place = |key: Key| keys.iter().position(|k| *k == key).unwrap_or(entities) as u32;
        let query = |anchor, answer, inverse| Query {
            anchor: place(anchor),
            relation: entities as u32,
            target: place(answer),
            inverse,
            scores_triple: scored == Scored::Triple,
        };
        let (query, answer) = match scored {
            Scored::Triple => (query(subject, object, false), None),
            Scored::OtherObject => (query(subject, object, false), Some(object)),
            Scored::OtherSubject => (query(object, subject, true), Some(subject)),
        };
        let uses = smallvec![1; keys.len()];
        let examples = u64::from(scored == Scored::Triple);
        (Self { queries: smallvec![query], entities, uses, examples, answer }, keys)
    }

    /// The key of the answer to `query`; `keys` are the direct ones.
    pub(crate) fn answer(&self, query: &Query, keys: &[Key]) -> Key {
        self.answer.unwrap_or_else(|| keys[query.target as usize])
    }

    /// The queries of `triples` and their distinct keys: entities first, each ascending. The key of relation
    /// `r` is `relations.0 + r`, that of its reciprocal `relations.1 + r` if there are any.
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
        let mut queries: SmallVec<[Query; 1]> = SmallVec::with_capacity(2 * triples.len());
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
        let mut uses: SmallVec<[u32; 4]> = smallvec![0; keys.len()];
        for query in &queries {
            for place in [query.anchor, query.relation, query.target] {
                uses[place as usize] += 1;
            }
        }
        let entities = keys.partition_point(|k| k.0 < forward);
        (Self { queries, entities, uses, examples: triples.len() as u64, answer: None }, keys)
    }
}

/// Buffers of a worker.
#[derive(Debug)]
pub struct Scratch<E> {
    pub(crate) scorer: Scorer,
    pub(crate) arch: Arch,
    /// The queries' vectors.
    pub(crate) queries: Vec<E>,
    /// Their gradients.
    pub(crate) d_queries: Vec<E>,
    /// Scores of the queries' candidates; later their gradients.
    pub(crate) scores: Vec<E>,
    /// A summand of the scores of each candidate.
    pub(crate) offsets: Vec<E>,
    /// Sampled keys and their positions, sorted.
    samples: Vec<(Key, u32)>,
    /// The triple that is trained in place.
    pub(crate) triple: triple::Triple<E>,
}

impl<E: Element> Scratch<E> {
    pub(crate) fn new(scorer: Scorer) -> Self {
        let empty = Vec::new;
        Self {
            scorer,
            arch: Arch::new(),
            queries: empty(),
            d_queries: empty(),
            scores: empty(),
            offsets: empty(),
            samples: Vec::new(),
            triple: triple::Triple::new(scorer),
        }
    }

    /// Computes the queries' vectors.
    #[inline(always)]
    pub(crate) fn compose(&mut self, batch: &Batch, values: &[E]) {
        let scorer = self.scorer;
        self.queries.resize(batch.queries.len() * scorer.dim, E::ZERO);
        self.d_queries.resize(batch.queries.len() * scorer.dim, E::ZERO);
        for (query, vector) in batch.queries.iter().zip(self.queries.chunks_exact_mut(scorer.dim)) {
            let embedding = |place: u32| &values[scorer.embedding(batch.entities, place as usize)];
            scorer.compose(embedding(query.anchor), embedding(query.relation), query.inverse, vector);
        }
    }

    /// Adds the gradients of anchors and relations that follow from those of the queries.
    #[inline(always)]
    pub(crate) fn compose_backward(&self, batch: &Batch, values: &[E], update: &mut [E]) {
        let scorer = self.scorer;
        // Anchors are entities, so that their gradients lie before those of relations.
        let relations = batch.entities * 2 * scorer.dim;
        let (d_entities, d_relations) = update.split_at_mut(relations);
        for (query, d_query) in batch.queries.iter().zip(self.d_queries.chunks_exact(scorer.dim)) {
            let anchor = scorer.embedding(batch.entities, query.anchor as usize);
            let relation = scorer.embedding(batch.entities, query.relation as usize);
            scorer.compose_backward(
                &values[anchor.clone()],
                &values[relation.clone()],
                query.inverse,
                d_query,
                &mut d_entities[anchor],
                &mut d_relations[relation.start - relations..relation.end - relations],
            );
        }
    }

    /// Adds the gradients of the penalties.
    #[inline(always)]
    pub(crate) fn penalise(&self, penalties: Penalties, batch: &Batch, values: &[E], update: &mut [E]) {
        if penalties == Penalties::default() {
            return;
        }
        for (place, uses) in batch.uses.iter().enumerate() {
            let embedding = self.scorer.embedding(batch.entities, place);
            self.scorer.penalise(penalties, *uses, &values[embedding.clone()], &mut update[embedding]);
        }
    }

    /// Moves the gradient of a key that occurs more than once to its first occurrence: AdaGrad squares the
    /// sum of a key's gradients, not each of them.
    #[inline(always)]
    pub(crate) fn merge(&mut self, batch: &Batch, pulled: Pulled<'_, E>, update: &mut Update<'_, E>) {
        let (dim, stride) = (self.scorer.dim, 2 * self.scorer.dim);
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
    #[inline(always)]
    pub(crate) fn adagrad(
        &self,
        adagrad: AdaGrad<E>,
        batch: &Batch,
        pulled: Pulled<'_, E>,
        update: &mut Update<'_, E>,
    ) {
        let (entity, relation) = (2 * self.scorer.dim, 2 * self.scorer.relation_len());
        let (entities, relations) = pulled.values.split_at(batch.entities * entity);
        let (d_entities, d_relations) = update.values.split_at_mut(batch.entities * entity);
        adagrad_rows(adagrad, entity, entities, d_entities);
        adagrad_rows(adagrad, relation, relations, d_relations);
        adagrad_rows(adagrad, entity, pulled.sample_values, update.sample_values);
    }
}

/// [`AdaGrad::update`] of rows of `len` elements.
#[inline(always)]
fn adagrad_rows<E: Element>(adagrad: AdaGrad<E>, len: usize, values: &[E], updates: &mut [E]) {
    for (value, update) in values.chunks_exact(len).zip(updates.chunks_exact_mut(len)) {
        adagrad.update(value, update);
    }
}

#[inline(always)]
fn move_into<E: Element>(to: &mut [E], from: &mut [E]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += *from;
        *from = E::ZERO;
    }
}
