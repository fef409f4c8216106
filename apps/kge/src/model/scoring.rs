//! What a model is: the arithmetic of its score, and what the program and its pages say about it.

use super::penalties::Penalties;
use intendant_core::{Element, limits};

/// A model: functions of the embeddings of a triple, which have `dim` numbers per entity.
///
/// As a function of one of the two entities, a score is the inner product of that entity's embedding with a
/// *query*. The other entity (the *anchor*) and the relation determine the query.
pub(super) trait Scoring {
    /// What the program says about the model.
    const FACTS: Facts;

    /// Real numbers of a relation's embedding.
    fn relation_len(dim: usize) -> usize;

    /// The score of the triple of subject `s`, relation `r` and object `o`, by its definition.
    fn score<E: Element>(s: &[E], r: &[E], o: &[E]) -> f64;

    /// The query of `anchor` and `relation`. If the anchor is the subject, its inner product with an object's
    /// embedding is the score. With `inverse`, the anchor is the object, and the query is for subjects.
    ///
    /// # Panics
    /// If the lengths do not match.
    fn compose<E: Element>(anchor: &[E], relation: &[E], inverse: bool, query: &mut [E]);

    /// Adds the gradients of anchor and relation that follow from `d_query`, the gradient of their query.
    ///
    /// # Panics
    /// If the lengths do not match.
    fn compose_backward<E: Element>(
        anchor: &[E],
        relation: &[E],
        inverse: bool,
        d_query: &[E],
        d_anchor: &mut [E],
        d_relation: &mut [E],
    );

    /// Multiply-adds of a query and of its gradients.
    fn cost(dim: usize) -> usize;

    /// Adds the gradient of the penalty of an embedding that is used `uses` times.
    fn penalise<E: Element>(penalties: Penalties, uses: u32, embedding: &[E], gradient: &mut [E]);

    /// The modulus of the `at`-th number of an embedding, or of the complex number that it is a part of.
    #[cfg(test)]
    fn modulus(embedding: &[f64], at: usize) -> f64 {
        embedding[at].abs()
    }
}

/// What flags, checks, help and pages say about a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// The value of `--model`.
    pub name: &'static str,
    /// The name in its paper.
    pub title: &'static str,
    /// The values of entities and relations, and the score.
    pub meaning: &'static str,
    /// The numbers of an entity, if that needs an explanation.
    pub dim_meaning: Option<&'static str>,
    /// The number of which `dim` is a multiple.
    pub dim_step: usize,
    /// The largest `dim`. No value may have more than [`NUMBERS_MAX`] numbers beside its accumulator.
    pub dim_max: usize,
    /// Why `dim` is limited, if it is limited by other values than those of entities.
    pub dim_reason: Option<&'static str>,
    /// What N3 penalises.
    pub moduli: Moduli,
    /// Real numbers of a relation, as a page writes them.
    pub relation: &'static str,
    /// The order of the numbers of an embedding in an export.
    pub order: &'static str,
    /// Hyperparameters with the softmax.
    pub defaults: Defaults,
}

/// The numbers whose cubed moduli the N3 penalty adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moduli {
    /// The model has no such penalty.
    None,
    /// The real numbers of an embedding.
    Real,
    /// The complex numbers of an embedding, each of which is two real ones.
    Complex,
}

/// Hyperparameters, unless the user gives others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defaults {
    /// Real numbers per entity.
    pub dim: usize,
    /// Triples per batch.
    pub batch: usize,
    /// Samples: per batch or per query, depending on the loss.
    pub negatives: usize,
    /// Weights of the penalties.
    pub penalties: Penalties,
}

impl Defaults {
    /// The best ones of ComplEx on the validation triples of CoDEx-S. Models for which none were searched
    /// have them, too.
    pub(super) const OF_COMPLEX: Self =
        Self { dim: 256, batch: 256, negatives: 256, penalties: Penalties { n3: 0.007, l2: 0.0 } };
}

/// Half of the elements that the largest value may have, in double precision: the other half is the
/// accumulator.
pub const NUMBERS_MAX: usize = limits::VALUE_BYTES_MAX / 16;
