//! Buffers that a worker keeps between steps, and the arithmetic that all steps on a whole batch share.

use crate::batch::Batch;
use crate::model::{AdaGrad, Penalties, Scorer};
use crate::triple::Triple;
use intendant_core::{Element, Key};
use intendant_task::{Pulled, Update};
use pulp::Arch;

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
    pub(crate) triple: Triple<E>,
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
            triple: Triple::new(scorer),
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

    /// Moves the gradient of a key that occurs more than once to the key's first occurrence, because AdaGrad
    /// squares the sum of a key's gradients, and not each gradient.
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
