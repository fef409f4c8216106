//! The model as arithmetic over slices.
//!
//! Each word has an input vector, which is its word vector, and an output vector. The logistic function of
//! the inner product of one word's input vector and another word's output vector predicts whether the second
//! is in the context of the first. It should be near 1 for pairs of the text, and near 0 for pairs with a
//! sampled word:
//!
//! ```text
//! − log σ(in · out)  −  Σ over samples  log σ(−in · out of the sample)
//! ```
//!
//! A value holds a vector, and an AdaGrad accumulator of the same length if there is one.
//!
//! The loops are those of [`intendant_task::kernel`]: fast because callers compile them for the processor at
//! hand, see [`crate::train`].

use clap::ValueEnum;
use intendant_core::random::stream;
use intendant_core::{Element, Key};
use intendant_task::kernel::{add_both, elementwise};
use pulp::Simd;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The rule that turns a gradient into a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Optimizer {
    /// Plain stochastic gradient descent; the learning rate falls linearly, to a ten-thousandth at the end.
    Sgd,
    /// AdaGrad, with its accumulators in the values: the gradient times the learning rate, divided by the
    /// root of the sum of the squares of all gradients so far, element by element.
    #[value(name = "adagrad")]
    AdaGrad,
}

/// Added to AdaGrad's accumulator before the root is taken, so that a gradient of zero gives a step of zero.
const ADAGRAD_EPSILON: f64 = 1e-10;

/// The parts of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) dim: usize,
    pub(crate) optimizer: Optimizer,
}

impl Shape {
    /// Elements of a value.
    pub(crate) const fn len(self) -> usize {
        match self.optimizer {
            Optimizer::Sgd => self.dim,
            Optimizer::AdaGrad => 2 * self.dim,
        }
    }

    /// Multiply-adds of one prediction and its gradients.
    pub(crate) const fn cost(self) -> u64 {
        let of_optimizer = match self.optimizer {
            Optimizer::Sgd => 0,
            // A square, a sum, a root and a quotient, each counted as one.
            Optimizer::AdaGrad => 4,
        };
        (3 + of_optimizer) * self.dim as u64
    }
}

/// Fills the value of an input vector (a key below `first_output`) with uniform numbers whose absolute value
/// is at most half the inverse of the vector's length, and that of an output vector with zeros. Depends on
/// its arguments only; the values of both element types agree up to rounding.
pub(crate) fn initialise<E: Element>(seed: u64, key: Key, first_output: u64, dim: usize, value: &mut [E]) {
    value.fill(E::ZERO);
    if key.0 < first_output {
        let mut rng = Pcg64Mcg::seed_from_u64(stream(seed, &[key.0]));
        for x in &mut value[..dim] {
            *x = E::from_f64((rng.random::<f64>() - 0.5) / dim as f64);
        }
    }
}

/// The steps of SGD or AdaGrad, with a learning rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stepper<E> {
    shape: Shape,
    rate: E,
    epsilon: E,
}

impl<E: Element> Stepper<E> {
    pub(crate) fn new(shape: Shape, rate: f64) -> Self {
        Self { shape, rate: E::from_f64(rate), epsilon: E::from_f64(ADAGRAD_EPSILON) }
    }

    /// Moves the output vector `row` by `slope` times the input vector, and adds `slope` times the previous
    /// output vector to `error`. `slope` is the negative derivative of the loss with respect to the score.
    #[inline(always)]
    pub(crate) fn output<S: Simd>(&self, simd: S, error: &mut [E], row: &mut [E], input: &[E], slope: E) {
        let Self { rate, epsilon, .. } = *self;
        match self.shape.optimizer {
            Optimizer::Sgd => add_both(simd, error, row, input, [slope, rate * slope]),
            Optimizer::AdaGrad => {
                let (row, squares) = row.split_at_mut(self.shape.dim);
                elementwise([error, row, squares], [input], |[e, r, s], [x]| {
                    let gradient = slope * x;
                    let squares = s + gradient * gradient;
                    [e + slope * r, r + rate * gradient / (squares + epsilon).sqrt(), squares]
                });
            }
        }
    }

    /// Moves the input vector `row` by `error`, the sum over the pair and its samples.
    #[inline(always)]
    pub(crate) fn input(&self, row: &mut [E], error: &[E]) {
        let Self { rate, epsilon, .. } = *self;
        match self.shape.optimizer {
            Optimizer::Sgd => elementwise([row], [error], |[r], [e]| [r + rate * e]),
            Optimizer::AdaGrad => {
                let (row, squares) = row.split_at_mut(self.shape.dim);
                elementwise([row, squares], [error], |[r, s], [e]| {
                    let squares = s + e * e;
                    [r + rate * e / (squares + epsilon).sqrt(), squares]
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(len: usize, seed: u64) -> Vec<f64> {
        (0..len as u64).map(|i| intendant_core::random::unit(stream(seed, &[i])) - 0.5).collect()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12 * (1.0 + a.abs())
    }

    /// Compares each step with its formula, for lengths with and without remainders.
    #[test]
    fn steps_are_what_they_should_be() {
        for dim in [1, 3, 4, 15, 16, 23, 100] {
            for optimizer in [Optimizer::Sgd, Optimizer::AdaGrad] {
                let shape = Shape { dim, optimizer };
                let stepper = Stepper::new(shape, 0.1);
                let value = |seed| {
                    let mut value = numbers(shape.len(), seed);
                    value[dim..].iter_mut().for_each(|s| *s = s.abs());
                    value
                };
                let (input, row, slope) = (value(3), value(4), -0.7);
                let step = |value: &[f64], at: usize, gradient: f64| match optimizer {
                    Optimizer::Sgd => (0.1 * gradient, 0.0),
                    Optimizer::AdaGrad => {
                        let square = gradient * gradient;
                        (0.1 * gradient / (value[dim + at] + square + 1e-10).sqrt(), square)
                    }
                };
                let error = numbers(dim, 5);
                let (mut moved_error, mut moved) = (error.clone(), row.clone());
                stepper.output(pulp::Scalar, &mut moved_error, &mut moved, &input, slope);
                let mut moved_input = input.clone();
                stepper.input(&mut moved_input, &error);
                for at in 0..dim {
                    assert!(close(moved_error[at], error[at] + slope * row[at]));
                    let (vector, square) = step(&row, at, slope * input[at]);
                    assert!(close(moved[at], row[at] + vector));
                    let (of_input, of_input_square) = step(&input, at, error[at]);
                    assert!(close(moved_input[at], input[at] + of_input));
                    if optimizer == Optimizer::AdaGrad {
                        assert!(close(moved[dim + at], row[dim + at] + square));
                        assert!(close(moved_input[dim + at], input[dim + at] + of_input_square));
                    }
                }
            }
        }
    }

    #[test]
    fn initial_input_vectors_are_small_and_output_vectors_are_zero() {
        let mut value = vec![7.0f64; 40];
        initialise(1, Key(3), 10, 20, &mut value);
        assert!(value[..20].iter().all(|x| x.abs() <= 0.025) && value[20..].iter().all(|x| *x == 0.0));
        let spread = value[..20].iter().map(|x| x.abs()).sum::<f64>() / 20.0;
        assert!((0.007..0.02).contains(&spread), "{spread}");
        let mut other = vec![7.0f32; 20];
        initialise(1, Key(3), 10, 20, &mut other);
        assert!(value.iter().zip(&other).all(|(a, b)| (a - f64::from(*b)).abs() < 1e-8));
        initialise(1, Key(10), 10, 20, &mut value);
        assert!(value.iter().all(|x| *x == 0.0));
    }
}
