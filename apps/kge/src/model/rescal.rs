//! RESCAL.
//!
//! Entities are vectors, a relation is a square matrix R, stored row by row: the row index belongs to the
//! subject, the column index to the object. The score of a triple is sᵀ R o, so that Rᵀ s is the query for
//! objects and R o the query for subjects.

use super::penalties::Penalties;
use intendant_core::Element;
use intendant_task::kernel::{add_scaled, dot};

/// # Panics
/// Unless the relation has the square of the length of the two others, which are equally long.
#[inline(always)]
fn check(anchor: usize, relation: usize, query: usize) {
    assert!(anchor == query && anchor.checked_mul(anchor) == Some(relation), "embeddings differ in length");
}

/// Rᵀ · anchor, or R · anchor with `inverse`.
///
/// # Panics
/// If the lengths do not match.
#[inline(always)]
pub(super) fn compose<E: Element>(anchor: &[E], relation: &[E], inverse: bool, query: &mut [E]) {
    check(anchor.len(), relation.len(), query.len());
    let rows = relation.chunks_exact(anchor.len());
    if inverse {
        query.iter_mut().zip(rows).for_each(|(query, row)| *query = dot(row, anchor));
    } else {
        query.fill(E::ZERO);
        anchor.iter().zip(rows).for_each(|(anchor, row)| add_scaled(query, *anchor, row));
    }
}

/// Adds the gradients of anchor and relation that follow from `d_query`, the gradient of their query.
///
/// # Panics
/// If the lengths do not match.
#[inline(always)]
pub(super) fn compose_backward<E: Element>(
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

/// Multiply-adds of a query and of its gradients: one and two for every element of the matrix.
pub(super) fn cost(dim: usize) -> usize {
    3 * dim * dim
}

/// Adds the gradient of the penalty of an embedding that is used `uses` times.
#[inline(always)]
pub(super) fn penalise<E: Element>(penalties: Penalties, uses: u32, embedding: &[E], gradient: &mut [E]) {
    add_scaled(gradient, E::from_f64(2.0 * penalties.l2 * f64::from(uses)), embedding);
}
