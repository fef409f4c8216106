//! Arithmetic with explicit vector instructions, where the compiler does not vectorise by itself: it
//! vectorises a single sum in some loops but not in others, and never several sums at once.
//!
//! As in [`super`], sums have a fixed order, and no multiplication is fused with an addition: the vectors of
//! every processor hold the same [`LANES`] lanes, in more or fewer registers.

use super::{LANES, total};
use intendant_core::{Element, ElementType};
use pulp::{Simd, bytemuck};

/// The inner product of two vectors, with the same result as [`super::dot`]. In large functions, the compiler
/// does not vectorise even a single sum. `simd` is the instruction set that the caller is compiled for.
///
/// # Panics
/// If `b` is shorter than `a`.
#[inline(always)]
pub fn product<S: Simd, E: Element>(simd: S, a: &[E], b: &[E]) -> E {
    let b = &b[..a.len()];
    match E::TYPE {
        ElementType::F32 => {
            bytemuck::cast(product_f32(simd, bytemuck::cast_slice(a), bytemuck::cast_slice(b)))
        }
        ElementType::F64 => {
            bytemuck::cast(product_f64(simd, bytemuck::cast_slice(a), bytemuck::cast_slice(b)))
        }
    }
}

/// The inner products of `a` with `b`, of `a` with itself, and of `b` with itself, for little more than the
/// price of one. `simd` is the instruction set that the caller is compiled for.
///
/// # Panics
/// If `b` is shorter than `a`.
#[inline(always)]
pub fn products<S: Simd, E: Element>(simd: S, a: &[E], b: &[E]) -> [E; 3] {
    let b = &b[..a.len()];
    match E::TYPE {
        ElementType::F32 => {
            bytemuck::cast(products_f32(simd, bytemuck::cast_slice(a), bytemuck::cast_slice(b)))
        }
        ElementType::F64 => {
            bytemuck::cast(products_f64(simd, bytemuck::cast_slice(a), bytemuck::cast_slice(b)))
        }
    }
}

/// `sum += factor · y` and `y += other_factor · x`, in one pass. `simd` is the instruction set that the
/// caller is compiled for.
///
/// # Panics
/// If a vector is shorter than `sum`.
#[inline(always)]
pub fn add_both<S: Simd, E: Element>(simd: S, sum: &mut [E], y: &mut [E], x: &[E], factors: [E; 2]) {
    let (y, x) = (&mut y[..sum.len()], &x[..sum.len()]);
    match E::TYPE {
        ElementType::F32 => {
            let (sum, y) = (bytemuck::cast_slice_mut(sum), bytemuck::cast_slice_mut(y));
            add_both_f32(simd, sum, y, bytemuck::cast_slice(x), bytemuck::cast(factors));
        }
        ElementType::F64 => {
            let (sum, y) = (bytemuck::cast_slice_mut(sum), bytemuck::cast_slice_mut(y));
            add_both_f64(simd, sum, y, bytemuck::cast_slice(x), bytemuck::cast(factors));
        }
    }
}

/// One divided by the square root of each number. `simd` is the instruction set that the caller is compiled
/// for.
#[inline(always)]
pub fn inverse_roots<S: Simd, E: Element>(simd: S, numbers: [E; 4]) -> [E; 4] {
    match E::TYPE {
        ElementType::F32 => bytemuck::cast(inverse_roots_f32(simd, bytemuck::cast(numbers))),
        ElementType::F64 => bytemuck::cast(inverse_roots_f64(simd, bytemuck::cast(numbers))),
    }
}

macro_rules! vectors {
    (
        $float:ty, $product:ident, $products:ident, $add_both:ident, $inverse_roots:ident, $width:ident,
        $split:ident, $split_mut:ident, $splat:ident, $add:ident, $mul:ident, $div:ident, $sqrt:ident
    ) => {
        #[inline(always)]
        fn $product<S: Simd>(simd: S, a: &[$float], b: &[$float]) -> $float {
            let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
            let registers = LANES / S::$width;
            let mut sums = [simd.$splat(0.0); LANES];
            for (a, b) in a.iter().zip(b) {
                let ((a, _), (b, _)) = (S::$split(a), S::$split(b));
                for at in 0..registers {
                    sums[at] = simd.$add(sums[at], simd.$mul(a[at], b[at]));
                }
            }
            let mut lanes = [0.0; LANES];
            let (to, _) = S::$split_mut(&mut lanes);
            to.copy_from_slice(&sums[..registers]);
            let ((a, a_rest), (b, b_rest)) = (a_rest.as_chunks::<4>(), b_rest.as_chunks::<4>());
            for (a, b) in a.iter().zip(b) {
                for lane in 0..4 {
                    lanes[lane] += a[lane] * b[lane];
                }
            }
            let rest = a_rest.iter().zip(b_rest).fold(0.0, |sum, (a, b)| sum + a * b);
            total(lanes) + rest
        }

        #[inline(always)]
        fn $add_both<S: Simd>(
            simd: S,
            sum: &mut [$float],
            y: &mut [$float],
            x: &[$float],
            [factor, other_factor]: [$float; 2],
        ) {
            let (factors, other_factors) = (simd.$splat(factor), simd.$splat(other_factor));
            let (sums, sum_rest) = S::$split_mut(sum);
            let (ys, y_rest) = S::$split_mut(y);
            let (xs, x_rest) = S::$split(x);
            for ((sum, y), x) in sums.iter_mut().zip(ys).zip(xs) {
                *sum = simd.$add(*sum, simd.$mul(factors, *y));
                *y = simd.$add(*y, simd.$mul(other_factors, *x));
            }
            for ((sum, y), x) in sum_rest.iter_mut().zip(y_rest).zip(x_rest) {
                *sum += factor * *y;
                *y += other_factor * *x;
            }
        }

        #[inline(always)]
        fn $products<S: Simd>(simd: S, a: &[$float], b: &[$float]) -> [$float; 3] {
            let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
            let registers = LANES / S::$width;
            let mut sums = [[simd.$splat(0.0); LANES]; 3];
            for (a, b) in a.iter().zip(b) {
                let ((a, _), (b, _)) = (S::$split(a), S::$split(b));
                for at in 0..registers {
                    sums[0][at] = simd.$add(sums[0][at], simd.$mul(a[at], b[at]));
                    sums[1][at] = simd.$add(sums[1][at], simd.$mul(a[at], a[at]));
                    sums[2][at] = simd.$add(sums[2][at], simd.$mul(b[at], b[at]));
                }
            }
            let mut lanes = [[0.0; LANES]; 3];
            for (lanes, sums) in lanes.iter_mut().zip(&sums) {
                let (to, _) = S::$split_mut(lanes);
                to.copy_from_slice(&sums[..registers]);
            }
            let ((a, a_rest), (b, b_rest)) = (a_rest.as_chunks::<4>(), b_rest.as_chunks::<4>());
            for (a, b) in a.iter().zip(b) {
                for lane in 0..4 {
                    lanes[0][lane] += a[lane] * b[lane];
                    lanes[1][lane] += a[lane] * a[lane];
                    lanes[2][lane] += b[lane] * b[lane];
                }
            }
            let mut totals = lanes.map(total);
            for (a, b) in a_rest.iter().zip(b_rest) {
                totals[0] += a * b;
                totals[1] += a * a;
                totals[2] += b * b;
            }
            totals
        }

        #[inline(always)]
        fn $inverse_roots<S: Simd>(simd: S, numbers: [$float; 4]) -> [$float; 4] {
            let mut lanes = [1.0; LANES];
            lanes[..4].copy_from_slice(&numbers);
            let (vectors, _) = S::$split_mut(&mut lanes);
            for vector in &mut vectors[..4usize.div_ceil(S::$width)] {
                *vector = simd.$div(simd.$splat(1.0), simd.$sqrt(*vector));
            }
            [lanes[0], lanes[1], lanes[2], lanes[3]]
        }
    };
}

vectors!(
    f32,
    product_f32,
    products_f32,
    add_both_f32,
    inverse_roots_f32,
    F32_LANES,
    as_simd_f32s,
    as_mut_simd_f32s,
    splat_f32s,
    add_f32s,
    mul_f32s,
    div_f32s,
    sqrt_f32s
);
vectors!(
    f64,
    product_f64,
    products_f64,
    add_both_f64,
    inverse_roots_f64,
    F64_LANES,
    as_simd_f64s,
    as_mut_simd_f64s,
    splat_f64s,
    add_f64s,
    mul_f64s,
    div_f64s,
    sqrt_f64s
);
