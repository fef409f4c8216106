//! A triple that is trained in place.
//!
//! The embeddings of its direct rows (subject, object, relation, reciprocal) are copied, because each of them
//! is needed more than once. Queries are computed from the copies, and the gradients of direct rows are
//! collected next to them. Rows of samples are visited one by one, and changed at once. At the end, the
//! direct rows are changed by their gradients; changes that other workers have made to them meanwhile are
//! kept.

use crate::batch::{Batch, Query};
use crate::model::{AdaGrad, Penalties, Scorer};
use intendant_core::Element;
use intendant_task::Rows;
use std::ops::Range;

/// Maximum number of queries of a triple: object, subject.
pub(crate) const QUERIES_MAX: usize = 2;

/// Maximum number of direct rows: subject, object, relation, reciprocal.
const ROWS_MAX: usize = 4;

/// How many rows ahead rows are prefetched.
pub(crate) const AHEAD: usize = 3;

/// A direct row: a copy of the embedding, and its gradient.
#[derive(Clone, Debug)]
pub(crate) struct Direct<E> {
    /// Position in the batch.
    pub(crate) place: u32,
    /// How often queries use it: the number of penalties on it.
    uses: u32,
    pub(crate) embedding: Vec<E>,
    pub(crate) gradient: Vec<E>,
}

/// A query: its vector, the vector's gradient, and its direct rows, by position in [`Triple::rows`].
#[derive(Clone, Debug)]
pub(crate) struct Composed<E> {
    pub(crate) vector: Vec<E>,
    pub(crate) gradient: Vec<E>,
    anchor: usize,
    relation: usize,
    /// `None` if the answer is a sample, as in a step that trains one corrupted triple.
    pub(crate) target: Option<usize>,
}

/// Buffers for a triple.
#[derive(Debug)]
pub(crate) struct Triple<E> {
    scorer: Scorer,
    /// The direct rows; only the first `used` belong to the triple.
    pub(crate) rows: [Direct<E>; ROWS_MAX],
    pub(crate) used: usize,
    pub(crate) queries: [Composed<E>; QUERIES_MAX],
}

impl<E: Element> Triple<E> {
    pub(crate) fn new(scorer: Scorer) -> Self {
        let row = || Direct { place: 0, uses: 0, embedding: Vec::new(), gradient: Vec::new() };
        let query = || {
            let [vector, gradient] = [vec![E::ZERO; scorer.dim], vec![E::ZERO; scorer.dim]];
            Composed { vector, gradient, anchor: 0, relation: 0, target: None }
        };
        let (rows, queries) = (std::array::from_fn(|_| row()), std::array::from_fn(|_| query()));
        Self { scorer, rows, used: 0, queries }
    }

    /// The direct rows of the triple.
    pub(crate) fn direct(&self) -> &[Direct<E>] {
        &self.rows[..self.used]
    }

    /// Copies the direct rows of a triple, whose queries are those at `range`, and composes the queries.
    #[inline(always)]
    pub(crate) fn begin(&mut self, batch: &Batch, range: Range<usize>, rows: &mut dyn Rows<E>) {
        self.used = 0;
        for (at, query) in batch.queries[range].iter().enumerate() {
            let anchor = self.direct_row(query.anchor, rows);
            let relation = self.direct_row(query.relation, rows);
            let target = batch.answer.is_none().then(|| self.direct_row(query.target, rows));
            let composed = &mut self.queries[at];
            (composed.anchor, composed.relation, composed.target) = (anchor, relation, target);
            let embedding = |row: usize| &self.rows[row].embedding;
            let vector = &mut composed.vector;
            self.scorer.compose(embedding(anchor), embedding(relation), query.inverse, vector);
            composed.gradient.fill(E::ZERO);
        }
    }

    /// The index of the direct row at a position of the batch. The row is copied at its first use.
    #[inline(always)]
    fn direct_row(&mut self, place: u32, rows: &mut dyn Rows<E>) -> usize {
        if let Some(row) = self.direct().iter().position(|row| row.place == place) {
            self.rows[row].uses += 1;
            return row;
        }
        let direct = &mut self.rows[self.used];
        (direct.place, direct.uses) = (place, 1);
        let value = rows.row(place as usize);
        let embedding = &value[..value.len() / 2];
        direct.embedding.clear();
        direct.embedding.extend_from_slice(embedding);
        drop(value);
        direct.gradient.clear();
        direct.gradient.resize(direct.embedding.len(), E::ZERO);
        self.used += 1;
        self.used - 1
    }

    /// Changes the direct rows by their gradients: the collected ones, those that follow from the gradients
    /// of the queries, and those of the penalties. Returns the number of changed parameters.
    #[inline(always)]
    pub(crate) fn end(
        &mut self,
        queries: &[Query],
        penalties: Penalties,
        adagrad: AdaGrad<E>,
        rows: &mut dyn Rows<E>,
    ) -> usize {
        for (query, composed) in queries.iter().zip(&self.queries) {
            let [anchor, relation] = self
                .rows
                .get_disjoint_mut([composed.anchor, composed.relation])
                .expect("an entity is no relation");
            self.scorer.compose_backward(
                &anchor.embedding,
                &relation.embedding,
                query.inverse,
                &composed.gradient,
                &mut anchor.gradient,
                &mut relation.gradient,
            );
        }
        let mut parameters = 0;
        for direct in &mut self.rows[..self.used] {
            if penalties != Penalties::default() {
                self.scorer.penalise(penalties, direct.uses, &direct.embedding, &mut direct.gradient);
            }
            adagrad.train(&mut rows.row(direct.place as usize), &direct.gradient);
            parameters += direct.gradient.len();
        }
        parameters
    }
}

/// Hints that the direct rows of the triple whose queries begin at `first` are about to be copied.
#[inline(always)]
pub(crate) fn prefetch<E: Element>(batch: &Batch, first: usize, rows: &dyn Rows<E>) {
    if let Some(query) = batch.queries.get(first) {
        [query.anchor, query.relation, query.target].iter().for_each(|place| rows.prefetch(*place as usize));
    }
}
