//! ComplEx.
//!
//! An embedding is a vector of complex numbers, stored as its real parts followed by its imaginary parts, so
//! that loops over either run over contiguous memory. The score of a triple is Re⟨s, r, ō⟩; relations are as
//! long as entities.

use super::penalties::Penalties;
use super::scoring::{Defaults, Facts, Moduli, NUMBERS_MAX, Scoring};
use intendant_core::Element;

/// ComplEx.
pub(super) struct Complex;

/// Real and imaginary parts.
#[inline(always)]
fn parts<E>(embedding: &[E]) -> (&[E], &[E]) {
    embedding.split_at(embedding.len() / 2)
}

#[inline(always)]
fn parts_mut<E>(embedding: &mut [E]) -> (&mut [E], &mut [E]) {
    embedding.split_at_mut(embedding.len() / 2)
}

impl Scoring for Complex {
    const FACTS: Facts = Facts {
        name: "complex",
        title: "ComplEx",
        meaning: "Complex vectors of D/2 numbers for entities and relations; the score is Re⟨s, r, ō⟩",
        dim_meaning: Some("the real and imaginary parts of D/2 complex numbers, also for relations"),
        dim_step: 2,
        dim_max: NUMBERS_MAX,
        dim_reason: None,
        moduli: Moduli::Complex,
        relation: "D",
        order: "real parts, then imaginary parts",
        defaults: Defaults::OF_COMPLEX,
    };

    #[inline]
    fn relation_len(dim: usize) -> usize {
        dim
    }

    fn score<E: Element>(s: &[E], r: &[E], o: &[E]) -> f64 {
        let at = |x: &[E], i: usize| x[i].to_f64();
        let half = s.len() / 2;
        let term = |i: usize| {
            let re = at(s, i) * at(r, i) - at(s, i + half) * at(r, i + half);
            let im = at(s, i) * at(r, i + half) + at(s, i + half) * at(r, i);
            re * at(o, i) + im * at(o, i + half)
        };
        (0..half).map(term).sum()
    }

    /// `anchor · relation`; with `inverse`, `anchor · conj(relation)`.
    #[inline(always)]
    fn compose<E: Element>(anchor: &[E], relation: &[E], inverse: bool, query: &mut [E]) {
        assert!(anchor.len() == query.len() && relation.len() == query.len(), "embeddings differ in length");
        let sign = if inverse { -E::ONE } else { E::ONE };
        let ((a_re, a_im), (r_re, r_im), (q_re, q_im)) = (parts(anchor), parts(relation), parts_mut(query));
        let n = q_re.len();
        let (a_re, a_im, r_re, r_im, q_im) = (&a_re[..n], &a_im[..n], &r_re[..n], &r_im[..n], &mut q_im[..n]);
        for i in 0..n {
            let im = sign * r_im[i];
            q_re[i] = a_re[i] * r_re[i] - a_im[i] * im;
            q_im[i] = a_re[i] * im + a_im[i] * r_re[i];
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
        let len = d_query.len();
        assert!(
            [anchor.len(), relation.len(), d_anchor.len(), d_relation.len()] == [len; 4],
            "embeddings differ in length"
        );
        let sign = if inverse { -E::ONE } else { E::ONE };
        let ((a_re, a_im), (r_re, r_im), (q_re, q_im)) = (parts(anchor), parts(relation), parts(d_query));
        let ((da_re, da_im), (dr_re, dr_im)) = (parts_mut(d_anchor), parts_mut(d_relation));
        let n = q_re.len();
        let (a_re, a_im, r_re, r_im, q_im) = (&a_re[..n], &a_im[..n], &r_re[..n], &r_im[..n], &q_im[..n]);
        let (da_re, da_im, dr_re, dr_im) =
            (&mut da_re[..n], &mut da_im[..n], &mut dr_re[..n], &mut dr_im[..n]);
        for i in 0..n {
            let im = sign * r_im[i];
            da_re[i] += q_re[i] * r_re[i] + q_im[i] * im;
            da_im[i] += q_im[i] * r_re[i] - q_re[i] * im;
            dr_re[i] += q_re[i] * a_re[i] + q_im[i] * a_im[i];
            dr_im[i] += sign * (q_im[i] * a_re[i] - q_re[i] * a_im[i]);
        }
    }

    /// Four and eight per complex number.
    fn cost(dim: usize) -> usize {
        6 * dim
    }

    #[inline(always)]
    fn penalise<E: Element>(penalties: Penalties, uses: u32, embedding: &[E], gradient: &mut [E]) {
        let uses = f64::from(uses);
        let (n3, l2) = (E::from_f64(3.0 * penalties.n3 * uses), E::from_f64(2.0 * penalties.l2 * uses));
        let ((re, im), (d_re, d_im)) = (parts(embedding), parts_mut(gradient));
        for (((re, im), d_re), d_im) in re.iter().zip(im).zip(d_re).zip(d_im) {
            let factor = n3 * (*re * *re + *im * *im).sqrt() + l2;
            *d_re += factor * *re;
            *d_im += factor * *im;
        }
    }

    #[cfg(test)]
    fn modulus(embedding: &[f64], at: usize) -> f64 {
        let half = embedding.len() / 2;
        embedding[at % half].hypot(embedding[at % half + half])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_and_its_gradients_cost_six_multiply_adds_per_number() {
        assert_eq!(Complex::cost(6), 6 * 6);
    }
}
