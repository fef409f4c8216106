//! A model as it is added to this program, for `docs/extending.md`: DistMult, whose score is Σ sᵢ rᵢ oᵢ. It
//! lacks its line in the table of models.

use super::penalties::Penalties;
use super::scoring::{Defaults, Facts, NUMBERS_MAX, Scoring};
use intendant_core::Element;
use intendant_task::kernel::{add_scaled, dot, elementwise};

struct DistMult;

impl Scoring for DistMult {
    const FACTS: Facts = Facts {
        name: "distmult",
        title: "DistMult",
        meaning: "Vectors for entities and relations; the score is Σ sᵢ rᵢ oᵢ",
        dim_meaning: None,
        dim_step: 1,
        dim_max: NUMBERS_MAX,
        dim_reason: None,
        is_complex: false,
        relation: "D",
        order: "as they are",
        defaults: Defaults {
            dim: 256,
            batch: 256,
            negatives: 256,
            penalties: Penalties { n3: 0.0, l2: 0.001 },
        },
    };

    fn relation_len(dim: usize) -> usize {
        dim
    }

    fn score<E: Element>(s: &[E], r: &[E], o: &[E]) -> f64 {
        s.iter().zip(r).zip(o).map(|((s, r), o)| s.to_f64() * r.to_f64() * o.to_f64()).sum()
    }

    /// The score is the same with subject and object exchanged, so it does not matter which is given.
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
        add_scaled(gradient, E::from_f64(2.0 * penalties.l2 * f64::from(uses)), embedding);
    }
}

#[test]
fn an_added_model_scores_and_learns() {
    let (s, r, o) = ([1.0, 2.0, -1.0], [0.5, 3.0, 2.0], [4.0, 1.0, 0.25]);
    let mut query = [0.0; 3];
    DistMult::compose(&s, &r, false, &mut query);
    let score: f64 = DistMult::score(&s, &r, &o);
    assert_eq!((dot(&query, &o), score), (7.5, 7.5));
    // The score is linear in each embedding, so a gradient is the score with the others.
    let [mut d_s, mut d_r] = [[0.0; 3]; 2];
    DistMult::compose_backward(&s, &r, false, &o, &mut d_s, &mut d_r);
    assert_eq!((dot(&d_s, &s), dot(&d_r, &r)), (score, score));
    let mut gradient = [0.0; 3];
    DistMult::penalise(DistMult::FACTS.defaults.penalties, 2, &[1.0, 0.0, 2.0], &mut gradient);
    assert_eq!(gradient, [0.004, 0.0, 0.008]);
    assert_eq!((DistMult::relation_len(3), DistMult::cost(3)), (3, 9));
}
