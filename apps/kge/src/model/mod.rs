//! The models as arithmetic over slices: one file for each.
//!
//! A model scores a triple by its three embeddings. As a function of one of the two entities, the score is an
//! inner product of that entity's embedding with a *query* that the other entity and the relation determine
//! ([`Scorer::compose`]); training and ranking are therefore products of a query matrix with an entity matrix
//! for all models. Models differ in how a query is computed, and in the length of a relation's embedding.
//!
//! A value is an embedding followed by an AdaGrad accumulator of the same length. This module has no keys,
//! batches or losses.

mod complex;
mod penalties;
mod rescal;

pub use penalties::Penalties;

use clap::ValueEnum;
use intendant_core::random::stream;
use intendant_core::{Element, Key};
use intendant_task::kernel::elementwise;
use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;
use std::ops::Range;

/// Which model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelKind {
    /// Complex vectors of D/2 numbers for entities and relations; the score is Re⟨s, r, ō⟩.
    Complex,
    /// Vectors for entities, a matrix of D · D numbers for each relation; the score is sᵀ R o.
    Rescal,
}

/// A model of a certain size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scorer {
    /// Which model.
    pub model: ModelKind,
    /// Real numbers of an entity's embedding.
    pub dim: usize,
}

impl Scorer {
    /// Real numbers of a relation's embedding.
    #[must_use]
    pub const fn relation_len(self) -> usize {
        match self.model {
            ModelKind::Complex => self.dim,
            ModelKind::Rescal => self.dim * self.dim,
        }
    }

    /// The place of an embedding within the values of several keys: that of the `place`-th key, if the first
    /// `entities` keys are entities and the others are relations.
    #[inline(always)]
    pub(crate) fn embedding(self, entities: usize, place: usize) -> Range<usize> {
        match place.checked_sub(entities) {
            None => place * 2 * self.dim..(2 * place + 1) * self.dim,
            Some(relation) => {
                let (start, len) = (entities * 2 * self.dim, self.relation_len());
                start + relation * 2 * len..start + (2 * relation + 1) * len
            }
        }
    }

    /// The query of `anchor` and `relation`. If the anchor is the subject, its inner product with an object's
    /// embedding is the score. With `inverse`, the anchor is the object, and the query is for subjects.
    ///
    /// # Panics
    /// If the lengths do not match.
    #[inline(always)]
    pub(crate) fn compose<E: Element>(self, anchor: &[E], relation: &[E], inverse: bool, query: &mut [E]) {
        match self.model {
            ModelKind::Complex => complex::compose(anchor, relation, inverse, query),
            ModelKind::Rescal => rescal::compose(anchor, relation, inverse, query),
        }
    }

    /// Adds the gradients of anchor and relation that follow from `d_query`, the gradient of their query.
    ///
    /// # Panics
    /// If the lengths do not match.
    #[inline(always)]
    pub(crate) fn compose_backward<E: Element>(
        self,
        anchor: &[E],
        relation: &[E],
        inverse: bool,
        d_query: &[E],
        d_anchor: &mut [E],
        d_relation: &mut [E],
    ) {
        match self.model {
            ModelKind::Complex => {
                complex::compose_backward(anchor, relation, inverse, d_query, d_anchor, d_relation);
            }
            ModelKind::Rescal => {
                rescal::compose_backward(anchor, relation, inverse, d_query, d_anchor, d_relation);
            }
        }
    }

    /// Multiply-adds of a query and of its gradients.
    pub(crate) fn query_cost(self) -> usize {
        match self.model {
            ModelKind::Complex => complex::cost(self.dim),
            ModelKind::Rescal => rescal::cost(self.dim),
        }
    }

    /// Adds the gradient of the penalty of an embedding that is used `uses` times.
    #[inline(always)]
    pub(crate) fn penalise<E: Element>(
        self,
        penalties: Penalties,
        uses: u32,
        embedding: &[E],
        gradient: &mut [E],
    ) {
        match self.model {
            ModelKind::Complex => complex::penalise(penalties, uses, embedding, gradient),
            ModelKind::Rescal => rescal::penalise(penalties, uses, embedding, gradient),
        }
    }
}

/// Added to the AdaGrad accumulator before the root is taken, so that a gradient of zero gives a step of
/// zero.
pub(crate) const ADAGRAD_EPSILON: f64 = 1e-10;

/// Fills the value of `key`: a normally distributed embedding with standard deviation `scale`, a zero
/// accumulator. Depends on its arguments only; the values of both element types agree up to rounding.
pub(crate) fn initialise<E: Element>(seed: u64, key: Key, scale: f64, value: &mut [E]) {
    let mut rng = Pcg64Mcg::seed_from_u64(stream(seed, &[key.0]));
    let (embedding, accumulator) = value.split_at_mut(value.len() / 2);
    for x in embedding {
        let normal: f64 = StandardNormal.sample(&mut rng);
        *x = E::from_f64(scale * normal);
    }
    accumulator.fill(E::ZERO);
}

/// Multiply-adds of AdaGrad per parameter: a square, a sum, a root and a quotient, each counted as one.
pub(crate) const ADAGRAD_COST: usize = 4;

/// AdaGrad with a learning rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdaGrad<E> {
    rate: E,
    epsilon: E,
}

impl<E: Element> AdaGrad<E> {
    pub(crate) fn new(learning_rate: f64) -> Self {
        Self { rate: E::from_f64(learning_rate), epsilon: E::from_f64(ADAGRAD_EPSILON) }
    }

    /// A parameter and its accumulator after a step against `gradient`.
    #[inline(always)]
    pub(crate) fn adapt(self, parameter: E, sum: E, gradient: E) -> [E; 2] {
        let sum = sum + gradient * gradient;
        [parameter - self.rate * gradient / (sum + self.epsilon).sqrt(), sum]
    }

    /// Changes a value by a step against `gradient`.
    ///
    /// # Panics
    /// If the gradient is shorter than the embedding.
    #[inline(always)]
    pub(crate) fn train(self, value: &mut [E], gradient: &[E]) {
        let (embedding, sums) = value.split_at_mut(value.len() / 2);
        elementwise([embedding, sums], [gradient], |[parameter, sum], [gradient]| {
            self.adapt(parameter, sum, gradient)
        });
    }

    /// Turns the gradient in the first half of `update` into the update of a value: what is added to the
    /// embedding, and what is added to the accumulator.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline(always)]
    pub(crate) fn update(self, value: &[E], update: &mut [E]) {
        assert_eq!(value.len(), update.len(), "value and update differ in length");
        let sums = &value[value.len() / 2..];
        let (step, square) = update.split_at_mut(update.len() / 2);
        elementwise([step, square], [sums], |[gradient, _], [sum]| {
            let square = gradient * gradient;
            [-self.rate * gradient / (sum + square + self.epsilon).sqrt(), square]
        });
    }
}
