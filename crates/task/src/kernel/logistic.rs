//! Logistic losses, computed, or read from a table in loops where each step waits for the previous one.

use intendant_core::{Element, ElementType};
use std::sync::LazyLock;

/// Sums logistic losses of predictions. It takes the logarithm of products of many terms, which saves most of
/// the logarithms.
#[derive(Clone, Copy, Debug)]
pub struct Losses {
    sum: f64,
    product: f64,
}

/// Terms are at most 2, so that many more of them can be multiplied before the product overflows.
const PRODUCT_MAX: f64 = 1e100;

impl Default for Losses {
    fn default() -> Self {
        Self::new()
    }
}

impl Losses {
    /// No loss.
    #[must_use]
    pub const fn new() -> Self {
        Self { sum: 0.0, product: 1.0 }
    }

    /// Adds the loss − log σ(score), or − log σ(−score) for a sample, and returns its negative derivative
    /// with respect to the score: 1 − σ(score), or − σ(score) for a sample.
    #[inline(always)]
    pub fn add<E: Element>(&mut self, score: E, is_sample: bool) -> E {
        let small = (-score.abs()).exp();
        let larger = E::ONE / (E::ONE + small);
        // log(1 + e^x) = max(x, 0) + log(1 + e^−|x|), with x = −score, or x = score for a sample.
        let x = if is_sample { score } else { -score };
        let is_wrong = x > E::ZERO;
        self.sum += if is_wrong { x.to_f64() } else { 0.0 };
        self.product *= 1.0 + small.to_f64();
        if self.product > PRODUCT_MAX {
            self.sum += self.product.ln();
            self.product = 1.0;
        }
        let logistic = if is_wrong { larger } else { small * larger };
        if is_sample { -logistic } else { logistic }
    }

    /// Whether all losses so far are finite.
    #[inline(always)]
    pub fn are_finite(&self) -> bool {
        (self.sum + self.product).is_finite()
    }

    /// The sum.
    pub fn total(&self) -> f64 {
        self.sum + self.product.ln()
    }
}

/// Table entries per unit of the score.
const PER_UNIT: u32 = 32;
/// If the absolute value of a score is not below this, the loss is computed.
const UNITS: u32 = 16;
/// The size is a power of two, so that the low bits of any number are a valid index.
const SIZE: usize = (2 * UNITS * PER_UNIT) as usize;

/// For each multiple i / 32, the logistic function σ(−i / 32) and its derivative. The table has 8 KiB, of
/// which few cache lines are used often.
type Table = [[f32; 2]; SIZE];

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    std::array::from_fn(|at| {
        let value = 1.0 / (1.0 + (at as f64 / f64::from(PER_UNIT)).exp());
        [value as f32, (value * (1.0 - value)) as f32]
    })
});

/// Sums logistic losses like [`Losses`], in less time. In single precision, slopes are interpolated with a
/// relative error of less than 10⁻⁶. An exponential and a division would take three times as long. This
/// matters if the score of one sample depends on the step of the previous one.
#[derive(Clone, Copy, Debug)]
pub struct QuickLosses {
    table: &'static Table,
    computed: Losses,
    /// The sum of the logarithms of earlier probabilities, and the product of those not yet in the sum.
    sum: f64,
    product: f64,
}

/// Probabilities are at least σ(−16), which is more than 10⁻⁷.
const PRODUCT_MIN: f64 = 1e-100;

impl Default for QuickLosses {
    fn default() -> Self {
        Self::new()
    }
}

impl QuickLosses {
    /// No loss.
    #[must_use]
    pub fn new() -> Self {
        Self { table: &TABLE, computed: Losses::new(), sum: 0.0, product: 1.0 }
    }

    /// Like [`Losses::add`].
    #[inline(always)]
    pub fn add<E: Element>(&mut self, score: E, is_sample: bool) -> E {
        let size = score.abs();
        // A NaN is not in the table, either.
        let is_in_table = E::TYPE == ElementType::F32 && size < E::from_f64(f64::from(UNITS));
        if !is_in_table {
            return self.computed.add(score, is_sample);
        }
        let small = self.small(size);
        let large = E::ONE - small;
        let is_wrong = (score > E::ZERO) == is_sample;
        let probability = if is_wrong { small } else { large };
        let slope = if is_wrong { large } else { small };
        self.product *= probability.to_f64();
        if self.product < PRODUCT_MIN {
            self.sum += self.product.ln();
            self.product = 1.0;
        }
        if is_sample { -slope } else { slope }
    }

    /// The logistic function of −`size`, for a `size` from 0 to 16.
    #[inline(always)]
    fn small<E: Element>(&self, size: E) -> E {
        // After this constant is added, the last binary digit of the sum stands for one table entry.
        const ROUND: f32 = 1.5 * (1 << 23) as f32 / PER_UNIT as f32;
        let size = size.to_f64() as f32;
        let rounded = size + ROUND;
        let [value, slope] = self.table[rounded.to_bits() as usize % SIZE];
        // The first terms of the Taylor series; the second derivative is σ' (1 − 2 σ).
        let distance = (rounded - ROUND) - size;
        let curved = distance + distance * distance * (0.5 - value);
        E::from_f64(f64::from(value + curved * slope))
    }

    /// Whether all losses so far are finite.
    #[inline(always)]
    pub fn are_finite(&self) -> bool {
        self.computed.are_finite()
    }

    /// The sum.
    pub fn total(&self) -> f64 {
        self.computed.total() - self.sum - self.product.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_and_slopes_are_those_of_the_logistic_function() {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12 * (1.0 + a.abs());
        let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
        let (mut losses, mut expected) = (Losses::new(), 0.0);
        for step in 0..4000 {
            let score = f64::from(step - 2000) / 100.0;
            assert!(close(losses.add(score, false), 1.0 - logistic(score)) || score > 15.0, "{score}");
            assert!(close(losses.add(score, true), -logistic(score)), "{score}");
            expected += (-score).exp().ln_1p() + score.exp().ln_1p();
        }
        assert!((losses.total() / expected - 1.0).abs() < 1e-12);
        for (score, is_sample, slope) in [(1e30, true, -1.0), (-1e30, false, 1.0), (1e30, false, 0.0)] {
            let mut losses = Losses::new();
            assert_eq!(losses.add(score, is_sample), slope);
            assert_eq!(losses.total(), if slope == 0.0 { 0.0 } else { 1e30 });
        }
        let mut losses = Losses::new();
        losses.add(f64::NAN, true);
        assert!(losses.total().is_nan());
    }

    #[test]
    fn slopes_are_those_of_the_logistic_function() {
        let (mut quick, mut losses) = (QuickLosses::new(), 0.0f64);
        for step in -200_000..200_000 {
            let score = step as f32 / 1e4;
            for is_sample in [false, true] {
                let slope = f64::from(quick.add(score, is_sample));
                let x = f64::from(score);
                let expected = if is_sample { -1.0 / (1.0 + (-x).exp()) } else { 1.0 / (1.0 + x.exp()) };
                let error = (slope / expected - 1.0).abs();
                assert!(error < 1e-6, "{score}: {slope} {expected}");
                losses += if is_sample { x } else { -x }.exp().ln_1p();
            }
        }
        assert!((quick.total() / losses - 1.0).abs() < 1e-7, "{} {losses}", quick.total());
    }

    #[test]
    fn double_precision_and_scores_that_are_not_finite_are_computed() {
        let (mut quick, mut losses) = (QuickLosses::new(), Losses::new());
        for step in -300..300 {
            let (score, is_sample) = (f64::from(step) / 10.0, step % 3 == 0);
            assert_eq!(quick.add(score, is_sample).to_bits(), losses.add(score, is_sample).to_bits());
        }
        assert_eq!(quick.total().to_bits(), losses.total().to_bits());
        for (score, is_sample) in [(f32::NAN, true), (f32::NAN, false), (f32::INFINITY, true)] {
            let mut quick = QuickLosses::new();
            quick.add(1.0f32, false);
            assert!(quick.are_finite());
            quick.add(score, is_sample);
            assert!(!quick.are_finite() && !quick.total().is_finite(), "{score}");
        }
    }
}
