//! CP, a canonical polyadic decomposition, as it is added to this program, for `docs/extending.md`. An entity
//! has a vector for its use as a subject, followed by one for its use as an object; the score is Σ sᵢ rᵢ o'ᵢ,
//! where ' marks the second vector. It lacks its line in the table of models.

use super::penalties::Penalties;
use super::scoring::{Defaults, Facts, Moduli, NUMBERS_MAX, Scoring};
use intendant_core::Element;
use intendant_task::kernel::{dot, elementwise};

struct Cp;

impl Scoring for Cp {
    const FACTS: Facts = Facts {
        name: "cp",
        title: "CP",
        meaning: "Two vectors of D/2 numbers for entities, one for relations; the score is Σ s r o'",
        dim_meaning: Some("two vectors of D/2 numbers"),
        dim_step: 2,
        dim_max: NUMBERS_MAX,
        dim_reason: None,
        moduli: Moduli::Real,
        relation: "D/2",
        order: "the first vector, then the second one",
        defaults: Defaults::OF_COMPLEX,
    };

    fn relation_len(dim: usize) -> usize {
        dim / 2
    }

    fn score<E: Element>(s: &[E], r: &[E], o: &[E]) -> f64 {
        let term = |i: usize| s[i].to_f64() * r[i].to_f64() * o[i + r.len()].to_f64();
        (0..r.len()).map(term).sum()
    }

    /// A subject meets the second vector of objects, and an object the first one of subjects. The other half
    /// of the query is zero.
    #[inline(always)]
    fn compose<E: Element>(anchor: &[E], relation: &[E], inverse: bool, query: &mut [E]) {
        let (first, second) = anchor.split_at(relation.len());
        let (to_first, to_second) = query.split_at_mut(relation.len());
        let (own, to_own, to_other) =
            if inverse { (second, to_second, to_first) } else { (first, to_first, to_second) };
        to_own.fill(E::ZERO);
        elementwise([to_other], [own, relation], |_, [own, relation]| [own * relation]);
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
        let half = relation.len();
        let (own, other) = if inverse { (half..2 * half, 0..half) } else { (0..half, half..2 * half) };
        elementwise(
            [&mut d_anchor[own.clone()], d_relation],
            [&anchor[own], relation, &d_query[other]],
            |[d_own, d_relation], [own, relation, d_query]| {
                [d_own + relation * d_query, d_relation + own * d_query]
            },
        );
    }

    /// One and two per number of one of the vectors.
    fn cost(dim: usize) -> usize {
        3 * dim / 2
    }

    #[inline(always)]
    fn penalise<E: Element>(penalties: Penalties, uses: u32, embedding: &[E], gradient: &mut [E]) {
        penalties.of_reals(uses, embedding, gradient);
    }
}

#[test]
fn an_added_model_scores_and_learns() {
    let (s, r, o) = ([1.0, 2.0, 7.0, 7.0], [0.5, 3.0], [7.0, 7.0, 4.0, 1.0]);
    let score: f64 = Cp::score(&s, &r, &o);
    assert_eq!(score, 8.0);
    for (anchor, other, inverse) in [(&s, &o, false), (&o, &s, true)] {
        let mut query = [0.0; 4];
        Cp::compose(anchor, &r, inverse, &mut query);
        assert_eq!(dot(&query, other), score);
        // The score is linear in each embedding, so a gradient is the score with the others.
        let (mut d_anchor, mut d_r) = ([0.0; 4], [0.0; 2]);
        Cp::compose_backward(anchor, &r, inverse, other, &mut d_anchor, &mut d_r);
        assert_eq!((dot(&d_anchor, anchor), dot(&d_r, &r)), (score, score));
    }
    let mut gradient = [0.0; 2];
    Cp::penalise(Penalties { n3: 0.5, l2: 0.25 }, 2, &[1.0, -2.0], &mut gradient);
    assert_eq!(gradient, [4.0, -14.0]);
    assert_eq!((Cp::relation_len(4), Cp::cost(4)), (2, 6));
}
