//! Arithmetic over slices that tasks share.
//!
//! The loops are plain and never `unsafe`. They are fast because they are inlined into callers that [`pulp`]
//! compiles for several generations of processors; at run time it calls the version for the processor at
//! hand. Sums have a fixed order, and no multiplication is fused with an addition, so that every processor
//! computes the same result. The tests compare it with that of the code for the oldest processor.

mod logistic;
mod vectors;

pub use logistic::{Losses, QuickLosses};
pub use vectors::{add_both, inverse_roots, product, products};

use intendant_core::Element;
use pulp::{Arch, Simd, WithSimd};

/// Elements that are computed at once: enough to fill the registers of any machine. The number also fixes the
/// order of summation.
const LANES: usize = 16;

/// The inner product of two vectors of the same length.
#[inline(always)]
pub fn dot<E: Element>(a: &[E], b: &[E]) -> E {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [E::ZERO; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let ((a, a_rest), (b, b_rest)) = (a_rest.as_chunks::<4>(), b_rest.as_chunks::<4>());
    for (a, b) in a.iter().zip(b) {
        for lane in 0..4 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest = a_rest.iter().zip(b_rest).fold(E::ZERO, |sum, (a, b)| sum + *a * *b);
    total(sums) + rest
}

/// The sum of the lanes. Adding one half to the other takes few steps.
#[inline(always)]
fn total<E: Element>(mut sums: [E; LANES]) -> E {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            let upper = sums[lane + width];
            sums[lane] += upper;
        }
        width /= 2;
    }
    sums[0]
}

/// Replaces the elements at each position of `changed` by the result of `each`, which takes them and the
/// elements of `read` at that position. All elements of a group are read before any of it is written.
///
/// # Panics
/// If a slice is shorter than the first of `changed`.
#[inline(always)]
pub fn elementwise<E: Element, const M: usize, const S: usize>(
    changed: [&mut [E]; M],
    read: [&[E]; S],
    each: impl Fn([E; M], [E; S]) -> [E; M],
) {
    let mut changed = changed;
    let len = changed[0].len();
    let mut at = 0;
    while at + LANES <= len {
        group::<E, M, S, LANES>(&mut changed, &read, at, &each);
        at += LANES;
    }
    while at + 4 <= len {
        group::<E, M, S, 4>(&mut changed, &read, at, &each);
        at += 4;
    }
    while at < len {
        group::<E, M, S, 1>(&mut changed, &read, at, &each);
        at += 1;
    }
}

#[inline(always)]
fn group<E: Element, const M: usize, const S: usize, const N: usize>(
    changed: &mut [&mut [E]; M],
    read: &[&[E]; S],
    at: usize,
    each: &impl Fn([E; M], [E; S]) -> [E; M],
) {
    let (mut new, mut inputs) = ([[E::ZERO; N]; M], [[E::ZERO; N]; S]);
    for slice in 0..M {
        new[slice].copy_from_slice(&changed[slice][at..at + N]);
    }
    for slice in 0..S {
        inputs[slice].copy_from_slice(&read[slice][at..at + N]);
    }
    for lane in 0..N {
        let (mut old, mut input) = ([E::ZERO; M], [E::ZERO; S]);
        for slice in 0..M {
            old[slice] = new[slice][lane];
        }
        for slice in 0..S {
            input[slice] = inputs[slice][lane];
        }
        let result = each(old, input);
        for slice in 0..M {
            new[slice][lane] = result[slice];
        }
    }
    for slice in 0..M {
        changed[slice][at..at + N].copy_from_slice(&new[slice]);
    }
}

/// `y += factor · x`.
///
/// # Panics
/// If `x` is shorter.
#[inline(always)]
pub fn add_scaled<E: Element>(y: &mut [E], factor: E, x: &[E]) {
    elementwise([y], [x], |[y], [x]| [y + factor * x]);
}

/// Whether all elements are finite: neither infinite nor NaN.
pub fn all_finite<E: Element>(arch: Arch, elements: &[E]) -> bool {
    arch.dispatch(Finite(elements))
}

struct Finite<'a, E>(&'a [E]);

impl<E: Element> WithSimd for Finite<'_, E> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> bool {
        // Zero times an infinite value or a NaN is NaN, and so is a sum that contains it. The sum is computed
        // in lanes: a single chain of dependent additions would take longer than much of what tasks compute.
        const WIDE: usize = 4 * LANES;
        let (groups, rest) = self.0.as_chunks::<WIDE>();
        let mut lanes = [E::ZERO; WIDE];
        for group in groups {
            for lane in 0..WIDE {
                lanes[lane] += group[lane] * E::ZERO;
            }
        }
        let rest = rest.iter().fold(E::ZERO, |sum, element| sum + *element * E::ZERO);
        lanes.iter().fold(rest, |sum, lane| sum + *lane).finite()
    }
}

/// `y −= x`.
///
/// # Panics
/// If `x` is shorter.
#[inline(always)]
pub fn subtract<E: Element>(y: &mut [E], x: &[E]) {
    elementwise([y], [x], |[y], [x]| [y - x]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::random::{stream, unit};
    use proptest::prelude::*;

    fn numbers(len: usize, seed: u64) -> Vec<f64> {
        (0..len as u64).map(|i| unit(stream(seed, &[i])) - 0.5).collect()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12 * (1.0 + a.abs())
    }

    #[test]
    fn inner_products_are_sums_of_products_for_all_lengths() {
        for len in 0..70 {
            let (a, b) = (numbers(len, 1), numbers(len, 2));
            let expected: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            assert!(close(dot(&a, &b), expected), "{len}");
        }
    }

    #[test]
    fn a_product_is_the_inner_product_to_the_bit() {
        for len in 0..70 {
            let (a, b) = (numbers(len, 1), numbers(len, 2));
            assert_eq!(product(pulp::Scalar, &a, &b), dot(&a, &b), "{len}");
        }
    }

    #[test]
    fn products_are_three_inner_products_for_all_lengths() {
        for len in 0..70 {
            let (a, b) = (numbers(len, 1), numbers(len, 2));
            assert_eq!(product(pulp::Scalar, &a, &b).to_bits(), dot(&a, &b).to_bits());
            let [both, first, second] = products(pulp::Scalar, &a, &b);
            assert!(close(both, dot(&a, &b)) && close(first, dot(&a, &a)) && close(second, dot(&b, &b)));
        }
    }

    #[test]
    fn both_vectors_are_added_to_for_all_lengths() {
        for len in 0..70 {
            let (sum, y, x) = (numbers(len, 1), numbers(len, 2), numbers(len + 3, 3));
            let (mut new_sum, mut new_y) = (sum.clone(), [&y[..], &[7.0]].concat());
            add_both(pulp::Scalar, &mut new_sum, &mut new_y, &x, [0.5, -2.0]);
            for at in 0..len {
                assert!(close(new_sum[at], sum[at] + 0.5 * y[at]) && close(new_y[at], y[at] - 2.0 * x[at]));
            }
            assert_eq!(new_y[len..], [7.0], "what lies behind stays");
        }
    }

    #[test]
    fn inverse_roots_are_inverse_and_roots() {
        let numbers = [4.0, 0.25, 1e-10, 9.0];
        for (number, found) in numbers.iter().zip(inverse_roots(pulp::Scalar, numbers)) {
            assert!(close(found, 1.0 / number.sqrt()));
        }
    }

    /// Calls all functions of this module, compiled for one kind of processor.
    struct All<'a, E>(&'a [E], &'a [E]);

    impl<E: Element> WithSimd for All<'_, E> {
        type Output = ([E; 9], Vec<E>, Vec<E>);

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
            let Self(a, b) = self;
            let (mut roots, mut scaled) = (a.to_vec(), a.to_vec());
            elementwise([&mut roots], [b], |[a], [b]| [a * b / (a * a + b * b + E::ONE).sqrt()]);
            add_scaled(&mut scaled, a.first().copied().unwrap_or(E::ONE), b);
            subtract(&mut roots, &scaled);
            add_both(simd, &mut scaled, &mut roots, b, [dot(a, b), E::ONE + E::ONE]);
            let [both, first, second] = products(simd, a, b);
            let [r, s, t, u] = inverse_roots(simd, [first, second, both * both, E::ONE + E::ONE]);
            ([dot(a, b), product(simd, a, b), both, first, second, r, s, t, u], roots, scaled)
        }
    }

    fn same_everywhere<E: Element>(a: &[E], b: &[E]) {
        let bits = |(products, x, y): ([E; 9], Vec<E>, Vec<E>)| {
            let all = [products.to_vec(), x, y].concat();
            all.iter().map(|e| e.to_f64().to_bits()).collect::<Vec<_>>()
        };
        let plain = bits(All(a, b).with_simd(pulp::Scalar));
        assert_eq!(bits(Arch::new().dispatch(All(a, b))), plain);
    }

    proptest! {
        #[test]
        fn every_processor_computes_the_same(
            pairs in proptest::collection::vec((-1e3f64..1e3, -1e3f64..1e3), 0..150),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            same_everywhere(&a, &b);
            let single = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Vec<_>>();
            same_everywhere(&single(&a), &single(&b));
        }

        #[test]
        fn what_is_not_finite_is_found_wherever_it_is(
            len in 1usize..300,
            at in 0usize..300,
            kind in 0usize..3,
        ) {
            let mut elements = numbers(len, 3);
            prop_assert!(all_finite(Arch::new(), &elements));
            elements[at % len] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][kind];
            prop_assert!(!all_finite(Arch::new(), &elements));
        }
    }
}
