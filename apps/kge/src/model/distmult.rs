//! DistMult: the score is Σ sᵢ rᵢ oᵢ, so that it is the same with subject and object exchanged.

use super::penalties::Penalties;
use super::scoring::{Defaults, Facts, Moduli, NUMBERS_MAX, Scoring};
use intendant_core::Element;
use intendant_task::kernel::elementwise;

/// DistMult.
pub(super) struct DistMult;

impl Scoring for DistMult {
    const FACTS: Facts = Facts {
        name: "distmult",
        title: "DistMult",
        meaning: "Vectors for entities and relations; the score is Σ sᵢ rᵢ oᵢ",
        dim_meaning: None,
        dim_step: 1,
        dim_max: NUMBERS_MAX,
        dim_reason: None,
        moduli: Moduli::Real,
        relation: "D",
        order: "as they are",
        defaults: Defaults::OF_COMPLEX,
    };

    fn relation_len(dim: usize) -> usize {
        dim
    }

    fn score<E: Element>(s: &[E], r: &[E], o: &[E]) -> f64 {
        s.iter().zip(r).zip(o).map(|((s, r), o)| s.to_f64() * r.to_f64() * o.to_f64()).sum()
    }

    /// It does not matter which of the two entities is given.
    #[inline(always)]
    fn compose<E: Element>(anchor: &[E], relation: &[E], _inverse: bool, query: &mut [E]) {
        elementwise([query], [anchor, relation], |_, [anchor, relation]| [anchor * relation]);
    }

    #[inline(always)]
    fn compose_backward<E: Element>(
        anchor: &[E],
        relation: &[E],
        _inverse: bool,
        d_query: &[E],
        d_anchor: &mut [E],
        d_relation: &mut [E],
    ) {
        elementwise(
            [d_anchor, d_relation],
            [anchor, relation, d_query],
            |[d_anchor, d_relation], [anchor, relation, d_query]| {
                [d_anchor + relation * d_query, d_relation + anchor * d_query]
            },
        );
    }

    /// One and two per number.
    fn cost(dim: usize) -> usize {
        3 * dim
    }

    #[inline(always)]
    fn penalise<E: Element>(penalties: Penalties, uses: u32, embedding: &[E], gradient: &mut [E]) {
        penalties.of_reals(uses, embedding, gradient);
    }
}
