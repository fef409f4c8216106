//! ComplEx as arithmetic over slices.
//!
//! An embedding is a vector of complex numbers, stored as its real parts followed by its imaginary parts, so that loops over
//! either are loops over neighbouring memory. The score of a triple is Re⟨s, r, ō⟩. As a function of one of the two entities
//! it is an inner product of that entity's embedding with a *query* that the other entity and the relation determine
//! ([`compose`]); training and ranking are therefore products of a query matrix with an entity matrix.
//!
//! A value is an embedding followed by an AdaGrad accumulator of the same length. Absent on purpose: keys, batches, losses.

use intendant_core::random::stream;
use intendant_core::{Element, Key};
use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;

/// Added to the AdaGrad accumulator below the root, so that a gradient of zero gives a step of zero.
pub(crate) const ADAGRAD_EPSILON: f64 = 1e-10;

/// Fills the value of `key`: a normally distributed embedding with standard deviation `scale`, a zero accumulator. Depends on
/// its arguments only; the values of both element types agree up to rounding.
pub(crate) fn initialise<E: Element>(seed: u64, key: Key, scale: f64, value: &mut [E]) {
    let mut rng = Pcg64Mcg::seed_from_u64(stream(seed, &[key.0]));
    let (embedding, accumulator) = value.split_at_mut(value.len() / 2);
    for x in embedding {
        let normal: f64 = StandardNormal.sample(&mut rng);
        *x = E::from_f64(scale * normal);
    }
    accumulator.fill(E::ZERO);
}

/// Real and imaginary parts.
#[inline]
fn parts<E>(embedding: &[E]) -> (&[E], &[E]) {
    embedding.split_at(embedding.len() / 2)
}

#[inline]
fn parts_mut<E>(embedding: &mut [E]) -> (&mut [E], &mut [E]) {
    embedding.split_at_mut(embedding.len() / 2)
}

/// The query of `anchor` and `relation`: `anchor · relation`, whose inner product with an object's embedding is the score if
/// the anchor is the subject; with `inverse`, `anchor · conj(relation)`, for subjects if the anchor is the object.
///
/// # Panics
/// If the lengths differ.
pub(crate) fn compose<E: Element>(anchor: &[E], relation: &[E], inverse: bool, query: &mut [E]) {
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
pub(crate) fn compose_backward<E: Element>(
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

/// Independent partial sums of [`dot`]: enough to fill the registers of any machine, and a fixed order of summation.
const LANES: usize = 16;

/// The inner product of two vectors; of the shorter length if they differ.
#[inline]
pub(crate) fn dot<E: Element>(a: &[E], b: &[E]) -> E {
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: E =
        a_chunks.remainder().iter().zip(b_chunks.remainder()).fold(E::ZERO, |s, (x, y)| s + *x * *y);
    let mut sums = [E::ZERO; LANES];
    for (x, y) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().fold(rest, |s, x| s + *x)
}

/// `y += factor · x`.
#[inline]
pub(crate) fn add_scaled<E: Element>(y: &mut [E], factor: E, x: &[E]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += factor * *x;
    }
}

/// Penalties on embeddings, per use of an embedding in a query.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Penalties {
    /// Weight of the sum of cubed moduli of the complex numbers.
    pub n3: f64,
    /// Weight of the sum of squares.
    pub l2: f64,
}

impl Penalties {
    /// The penalty of an embedding that is used once.
    pub fn value<E: Element>(&self, embedding: &[E]) -> f64 {
        let (re, im) = parts(embedding);
        re.iter().zip(im).fold(0.0, |sum, (re, im)| {
            let square = re.to_f64() * re.to_f64() + im.to_f64() * im.to_f64();
            sum + self.n3 * square * square.sqrt() + self.l2 * square
        })
    }

    /// Adds the gradient of the penalty of an embedding that is used `uses` times.
    pub fn add_gradient<E: Element>(&self, uses: u32, embedding: &[E], gradient: &mut [E]) {
        let uses = f64::from(uses);
        let (n3, l2) = (E::from_f64(3.0 * self.n3 * uses), E::from_f64(2.0 * self.l2 * uses));
        let ((re, im), (d_re, d_im)) = (parts(embedding), parts_mut(gradient));
        for (((re, im), d_re), d_im) in re.iter().zip(im).zip(d_re).zip(d_im) {
            let factor = n3 * (*re * *re + *im * *im).sqrt() + l2;
            *d_re += factor * *re;
            *d_im += factor * *im;
        }
    }
}

/// Turns the gradient in the first half of `update` into AdaGrad's update of a value: what is added to the embedding, and what
/// is added to the accumulator.
///
/// # Panics
/// If the lengths differ.
pub(crate) fn adagrad<E: Element>(learning_rate: f64, value: &[E], update: &mut [E]) {
    assert_eq!(value.len(), update.len(), "value and update differ in length");
    let (rate, epsilon) = (E::from_f64(learning_rate), E::from_f64(ADAGRAD_EPSILON));
    let accumulator = &value[value.len() / 2..];
    let (step, square) = update.split_at_mut(update.len() / 2);
    for ((g, square), accumulator) in step.iter_mut().zip(square).zip(accumulator) {
        *square = *g * *g;
        *g = -rate * *g / (*accumulator + *square + epsilon).sqrt();
    }
}
