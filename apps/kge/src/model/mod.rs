//! The models as arithmetic over slices: one file for each, and one line in the table of all ([`ModelKind`]).
//!
//! A model scores a triple by its three embeddings. As a function of one of the two entities, the score is an
//! inner product of that entity's embedding with a *query* that the other entity and the relation determine
//! ([`Scorer::compose`]); training and ranking are therefore products of a query matrix with an entity matrix
//! for all models. Models differ in how a query is computed, and in the length of a relation's embedding.
//!
//! A value is an embedding followed by an AdaGrad accumulator of the same length. This module has no keys,
//! batches or losses.

mod complex;
mod distmult;
mod penalties;
mod rescal;
mod scoring;
mod simple;

pub use penalties::Penalties;
pub use scoring::{Defaults, Facts, Moduli, NUMBERS_MAX};

use clap::ValueEnum;
use clap::builder::PossibleValue;
use intendant_core::random::stream;
use intendant_core::{Element, Key};
use intendant_task::kernel::elementwise;
use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;
use scoring::Scoring;
use std::ops::Range;

/// Declares the models: the file and the type of each, in the order in which help and pages name them. The
/// first one is the default.
macro_rules! models {
    ($($file:ident::$model:ident,)+) => {
        /// Which model.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ModelKind {
            $(
                #[doc = concat!("The model of `", stringify!($file), ".rs`: [`ModelKind::facts`] describes it.")]
                $model,
            )+
        }

        impl ModelKind {
            /// All models.
            pub const ALL: &'static [Self] = &[$(Self::$model,)+];

            /// What the program says about the model.
            #[must_use]
            pub const fn facts(self) -> &'static Facts {
                match self { $(Self::$model => &$file::$model::FACTS,)+ }
            }
        }

        /// The functions of `Scoring`. The choice of the model is outside the loops over numbers, which are
        /// compiled for each model.
        impl Scorer {
            /// Real numbers of a relation's embedding.
            #[must_use]
            #[inline]
            pub fn relation_len(self) -> usize {
                match self.model { $(ModelKind::$model => $file::$model::relation_len(self.dim),)+ }
            }

            /// The score of the triple of subject `s`, relation `r` and object `o`, by its definition.
            ///
            /// # Panics
            /// If the lengths do not match.
            #[must_use]
            pub fn score<E: Element>(self, s: &[E], r: &[E], o: &[E]) -> f64 {
                assert_eq!([s.len(), r.len(), o.len()], [self.dim, self.relation_len(), self.dim], "lengths");
                match self.model { $(ModelKind::$model => $file::$model::score(s, r, o),)+ }
            }

            #[inline(always)]
            pub(crate) fn compose<E: Element>(
                self,
                anchor: &[E],
                relation: &[E],
                inverse: bool,
                query: &mut [E],
            ) {
                match self.model {
                    $(ModelKind::$model => $file::$model::compose(anchor, relation, inverse, query),)+
                }
            }

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
                    $(ModelKind::$model => $file::$model::compose_backward(
                        anchor, relation, inverse, d_query, d_anchor, d_relation,
                    ),)+
                }
            }

            pub(crate) fn query_cost(self) -> usize {
                match self.model { $(ModelKind::$model => $file::$model::cost(self.dim),)+ }
            }

            #[inline(always)]
            pub(crate) fn penalise<E: Element>(
                self,
                penalties: Penalties,
                uses: u32,
                embedding: &[E],
                gradient: &mut [E],
            ) {
                match self.model {
                    $(ModelKind::$model => $file::$model::penalise(penalties, uses, embedding, gradient),)+
                }
            }

            #[cfg(test)]
            pub(crate) fn modulus(self, embedding: &[f64], at: usize) -> f64 {
                match self.model { $(ModelKind::$model => $file::$model::modulus(embedding, at),)+ }
            }
        }
    };
}

models! {
    complex::Complex,
    rescal::Rescal,
    distmult::DistMult,
    simple::SimplE,
}

impl ModelKind {
    /// The model that is trained unless the user names another: the first.
    pub const DEFAULT: Self = Self::ALL[0];
}

impl ValueEnum for ModelKind {
    fn value_variants<'a>() -> &'a [Self] {
        Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let facts = self.facts();
        Some(PossibleValue::new(facts.name).help(facts.meaning))
    }
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

#[cfg(test)]
mod example_tests;

#[cfg(test)]
mod pages_tests;
