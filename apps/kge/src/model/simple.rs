//! SimplE: an entity has a vector for its use as a subject and one for its use as an object, and a relation
//! one for each direction. An embedding is the first vector, followed by the second one. The score is the
//! mean of Σ sᵢ rᵢ o'ᵢ and Σ oᵢ r'ᵢ s'ᵢ, where ' marks the second vectors.

use super::penalties::Penalties;
use super::scoring::{Defaults, Facts, Moduli, NUMBERS_MAX, Scoring};
use intendant_core::Element;
use intendant_task::kernel::elementwise;

/// SimplE.
pub(super) struct SimplE;

/// The two vectors of an embedding.
#[inline(always)]
fn parts<E>(embedding: &[E]) -> (&[E], &[E]) {
    embedding.split_at(embedding.len() / 2)
}

/// The two vectors of a relation, that of the anchor's direction first.
#[inline(always)]
fn directions<E>(relation: &[E], inverse: bool) -> (&[E], &[E]) {
    let (forth, back) = parts(relation);
    if inverse { (back, forth) } else { (forth, back) }
}

impl Scoring for SimplE {
    const FACTS: Facts = Facts {
        name: "simple",
        title: "SimplE",
        meaning: "Two vectors of D/2 numbers for entities and relations; the score is (Σ s r o' + Σ o r' s') / 2",
        dim_meaning: Some("two vectors of D/2 numbers, also for relations"),
        dim_step: 2,
        dim_max: NUMBERS_MAX,
        dim_reason: None,
        moduli: Moduli::Real,
        relation: "D",
        order: "the first vector, then the second one",
        defaults: Defaults::OF_COMPLEX,
    };

    fn relation_len(dim: usize) -> usize {
        dim
    }

    fn score<E: Element>(s: &[E], r: &[E], o: &[E]) -> f64 {
        let half = s.len() / 2;
        let at = |x: &[E], i: usize| x[i].to_f64();
        let term =
            |i: usize| at(s, i) * at(r, i) * at(o, i + half) + at(o, i) * at(r, i + half) * at(s, i + half);
        (0..half).map(term).sum::<f64>() / 2.0
    }

    /// With the subject given, the object's first vector meets `s' · r'`, and its second one `s · r`. With
    /// the object given, the two vectors of the relation change places.
    #[inline(always)]
    fn compose<E: Element>(anchor: &[E], relation: &[E], inverse: bool, query: &mut [E]) {
        let ((first, second), (forth, back)) = (parts(anchor), directions(relation, inverse));
        let (to_first, to_second) = query.split_at_mut(first.len());
        let half = E::from_f64(0.5);
        elementwise(
            [to_first, to_second],
            [first, second, forth, back],
            |_, [first, second, forth, back]| [half * second * back, half * first * forth],
        );
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
        let ((first, second), (forth, back)) = (parts(anchor), directions(relation, inverse));
        let (to_first, to_second) = parts(d_query);
        let (d_first, d_second) = d_anchor.split_at_mut(first.len());
        let (d_one, d_other) = d_relation.split_at_mut(first.len());
        let (d_forth, d_back) = if inverse { (d_other, d_one) } else { (d_one, d_other) };
        let half = E::from_f64(0.5);
        elementwise(
            [d_first, d_forth],
            [first, forth, to_second],
            |[d_first, d_forth], [first, forth, to_second]| {
                [d_first + half * forth * to_second, d_forth + half * first * to_second]
            },
        );
        elementwise(
            [d_second, d_back],
            [second, back, to_first],
            |[d_second, d_back], [second, back, to_first]| {
                [d_second + half * back * to_first, d_back + half * second * to_first]
            },
        );
    }

    /// Two and three per number.
    fn cost(dim: usize) -> usize {
        5 * dim
    }

    #[inline(always)]
    fn penalise<E: Element>(penalties: Penalties, uses: u32, embedding: &[E], gradient: &mut [E]) {
        penalties.of_reals(uses, embedding, gradient);
    }
}
