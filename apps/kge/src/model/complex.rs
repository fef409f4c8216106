//! ComplEx.
//!
//! An embedding is a vector of complex numbers, stored as its real parts followed by its imaginary parts, so
//! that loops over either run over contiguous memory. The score of a triple is Re⟨s, r, ō⟩; relations are as
//! long as entities.

use super::penalties::Penalties;
use intendant_core::Element;

/// Real and imaginary parts.
#[inline(always)]
fn parts<E>(embedding: &[E]) -> (&[E], &[E]) {
    embedding.split_at(embedding.len() / 2)
}

#[inline(always)]
fn parts_mut<E>(embedding: &mut [E]) -> (&mut [E], &mut [E]) {
    embedding.split_at_mut(embedding.len() / 2)
}

/// The query of `anchor` and `relation`. If the anchor is the subject, it is `anchor · relation`, whose inner
/// product with an object's embedding is the score. With `inverse`, the anchor is the object, and the query
/// for subjects is `anchor · conj(relation)`.
///
/// # Panics
/// If the lengths differ.
#[inline(always)]
pub(super) fn compose<E: Element>(anchor: &[E], relation: &[E], inverse: bool, query: &mut [E]) {
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

/// Adds the gradients of anchor and relation that follow from `d_query`, the gradient of their query.
///
/// # Panics
/// If the lengths differ.
#[inline(always)]
pub(super) fn compose_backward<E: Element>(
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
    let (da_re, da_im, dr_re, dr_im) = (&mut da_re[..n], &mut da_im[..n], &mut dr_re[..n], &mut dr_im[..n]);
    for i in 0..n {
        let im = sign * r_im[i];
        da_re[i] += q_re[i] * r_re[i] + q_im[i] * im;
        da_im[i] += q_im[i] * r_re[i] - q_re[i] * im;
        dr_re[i] += q_re[i] * a_re[i] + q_im[i] * a_im[i];
        dr_im[i] += sign * (q_im[i] * a_re[i] - q_re[i] * a_im[i]);
    }
}

/// Multiply-adds of a query and of its gradients: four and eight per complex number.
pub(super) fn cost(dim: usize) -> usize {
    6 * dim
}

/// Adds the gradient of the penalty of an embedding that is used `uses` times.
#[inline(always)]
pub(super) fn penalise<E: Element>(penalties: Penalties, uses: u32, embedding: &[E], gradient: &mut [E]) {
    let uses = f64::from(uses);
    let (n3, l2) = (E::from_f64(3.0 * penalties.n3 * uses), E::from_f64(2.0 * penalties.l2 * uses));
    let ((re, im), (d_re, d_im)) = (parts(embedding), parts_mut(gradient));
    for (((re, im), d_re), d_im) in re.iter().zip(im).zip(d_re).zip(d_im) {
        let factor = n3 * (*re * *re + *im * *im).sqrt() + l2;
        *d_re += factor * *re;
        *d_im += factor * *im;
    }
}
