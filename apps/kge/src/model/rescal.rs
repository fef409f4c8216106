//! RESCAL.
//!
//! Entities are vectors, a relation is a square matrix R, stored row by row: the row index belongs to the
//! subject, the column index to the object. The score of a triple is sᵀ R o, so that Rᵀ s is the query for
//! objects and R o the query for subjects.

use super::penalties::Penalties;
use super::scoring::{Defaults, Facts, Moduli, NUMBERS_MAX, Scoring};
use intendant_core::Element;
use intendant_task::kernel::{add_scaled, dot};

/// RESCAL.
pub(super) struct Rescal;

/// # Panics
/// Unless the relation has the square of the length of the two others, which are equally long.
#[inline(always)]
fn check(anchor: usize, relation: usize, query: usize) {
    assert!(anchor == query && anchor.checked_mul(anchor) == Some(relation), "embeddings differ in length");
}

impl Scoring for Rescal {
    const FACTS: Facts = Facts {
        name: "rescal",
        title: "RESCAL",
        meaning: "Vectors for entities, a matrix of D · D numbers for each relation; the score is sᵀ R o",
        dim_meaning: None,
        dim_step: 1,
        dim_max: NUMBERS_MAX.isqrt(),
        dim_reason: Some("relations are matrices of dim · dim numbers"),
        moduli: Moduli::None,
        relation: "D²",
        order: "of a relation, the matrix row by row, whose rows belong to the subject",
        defaults: Defaults {
            dim: 128,
            batch: 512,
            negatives: 1024,
            penalties: Penalties { n3: 0.0, l2: 0.0 },
        },
    };

    #[inline]
    fn relation_len(dim: usize) -> usize {
        dim * dim
    }

    fn score<E: Element>(s: &[E], r: &[E], o: &[E]) -> f64 {
        let dim = s.len();
        let term = |at: usize| s[at / dim].to_f64() * r[at].to_f64() * o[at % dim].to_f64();
        (0..dim * dim).map(term).sum()
    }

    /// Rᵀ · anchor, or R · anchor with `inverse`.
    #[inline(always)]
    fn compose<E: Element>(anchor: &[E], relation: &[E], inverse: bool, query: &mut [E]) {
        check(anchor.len(), relation.len(), query.len());
        let rows = relation.chunks_exact(anchor.len());
        if inverse {
            query.iter_mut().zip(rows).for_each(|(query, row)| *query = dot(row, anchor));
        } else {
            query.fill(E::ZERO);
            anchor.iter().zip(rows).for_each(|(anchor, row)| add_scaled(query, *anchor, row));
        }
    }

    #[inline(always)]
    fn compose_backward<E: Element>(
        anchor: &[E],
        relation: &[E],
        inverse: bool,
        d_query: &[E],
        d_anchor: &mut [E],
        d_relation: &mut [E],
    ) {
        check(anchor.len(), relation.len(), d_query.len());
        check(d_anchor.len(), d_relation.len(), d_query.len());
        let dim = anchor.len();
        let rows = relation.chunks_exact(dim).zip(d_relation.chunks_exact_mut(dim)).enumerate();
        for (i, (row, d_row)) in rows {
            if inverse {
                add_scaled(d_anchor, d_query[i], row);
                add_scaled(d_row, d_query[i], anchor);
            } else {
                d_anchor[i] += dot(row, d_query);
                add_scaled(d_row, anchor[i], d_query);
            }
        }
    }

    /// One and two for every element of the matrix.
    fn cost(dim: usize) -> usize {
        3 * dim * dim
    }

    #[inline(always)]
    fn penalise<E: Element>(penalties: Penalties, uses: u32, embedding: &[E], gradient: &mut [E]) {
        add_scaled(gradient, E::from_f64(2.0 * penalties.l2 * f64::from(uses)), embedding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_and_its_gradients_cost_three_multiply_adds_per_element() {
        assert_eq!(Rescal::cost(5), 3 * 25);
    }
}
