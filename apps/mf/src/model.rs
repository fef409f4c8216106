//! The model as arithmetic over slices.
//!
//! The prediction of a cell is the inner product of its row's and its column's factors. With biases, it is
//! the sum of the mean of the training entries, the biases of row and column, and that product. The objective
//! is
//!
//! ```text
//! ½ Σ over entries (value − prediction)²  +  ½ Σ over rows and columns (l2 · |factors|² + l2_bias · bias²)
//! ```
//!
//! minimised entry by entry. The penalty of a row or column with n entries is divided by n and applied at
//! each of them ([`Scope::Key`]; the ridge convention), or applied at each in full ([`Scope::Use`]; as if it
//! were multiplied by n).
//!
//! A value holds the factors, the bias if there is one, and the optimiser's accumulators of both if the
//! optimiser has accumulators.

use clap::ValueEnum;
use intendant_core::random::stream;
use intendant_core::{Element, Key};
use intendant_task::kernel::{dot, elementwise, inverse_roots, products};
use pulp::Simd;
use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;

/// The rule that turns a gradient into a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Optimizer {
    /// AdaGrad, with its accumulators in the values: the gradient times the learning rate, divided by the
    /// root of the sum of the squares of all gradients so far, element by element.
    #[value(name = "adagrad")]
    AdaGrad,
    /// AdaGrad with one accumulator for all factors of a row or column, and one for its bias: the gradient
    /// times the learning rate, divided by the root of the sum of the mean squares of all gradients so far.
    /// (The last gradient is left out if it is smaller than the others together.) It needs as few epochs as
    /// AdaGrad, with little more arithmetic and memory than plain gradient descent.
    #[value(name = "row-adagrad")]
    RowAdaGrad,
    /// Plain stochastic gradient descent: the gradient times the learning rate.
    Sgd,
}

/// How often the L2 penalties of a row or column are applied in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// Once per epoch, however many entries the row or column has (ridge regression).
    Key,
    /// At each of its entries.
    Use,
}

/// Added to AdaGrad's accumulator before the root is taken, so that a gradient of zero gives a step of zero.
const ADAGRAD_EPSILON: f64 = 1e-10;

/// The parts of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) rank: usize,
    pub(crate) bias: bool,
    pub(crate) optimizer: Optimizer,
}

impl Shape {
    /// Factors and bias.
    pub(crate) const fn parameters(&self) -> usize {
        self.rank + self.bias as usize
    }

    /// Elements of a value.
    pub(crate) const fn len(&self) -> usize {
        match self.optimizer {
            Optimizer::Sgd => self.parameters(),
            Optimizer::RowAdaGrad => self.parameters() + 1 + self.bias as usize,
            Optimizer::AdaGrad => 2 * self.parameters(),
        }
    }

    /// Multiply-adds of training one entry, with a root or a division counted as one: the prediction, then
    /// for each parameter of row and column the gradient (two) and the step (SGD: one; with an accumulator
    /// per row also a square; AdaGrad: square and sum, root, division, step).
    pub(crate) const fn cost(&self) -> u64 {
        let step = match self.optimizer {
            Optimizer::Sgd => 3,
            Optimizer::RowAdaGrad => 4,
            Optimizer::AdaGrad => 6,
        };
        let parameters = self.parameters() as u64;
        parameters + 2 * step * parameters
    }

    /// Predicts a cell from the values of its row and column. `mean` is used only if there are biases.
    #[inline(always)]
    pub(crate) fn predict<E: Element>(&self, mean: f64, row: &[E], column: &[E]) -> E {
        let product = dot(&row[..self.rank], &column[..self.rank]);
        if self.bias { E::from_f64(mean) + row[self.rank] + column[self.rank] + product } else { product }
    }
}

/// Fills a value: normally distributed factors with standard deviation `scale`, the rest zero. Depends on its
/// arguments only; the values of both element types agree up to rounding.
pub(crate) fn initialise<E: Element>(seed: u64, key: Key, rank: usize, scale: f64, value: &mut [E]) {
    let mut random = Pcg64Mcg::seed_from_u64(stream(seed, &[key.0]));
    let (factors, rest) = value.split_at_mut(rank);
    for x in factors {
        let normal: f64 = StandardNormal.sample(&mut random);
        *x = E::from_f64(scale * normal);
    }
    rest.fill(E::ZERO);
}

/// Weights of the L2 penalties of one row or column at one entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Decay<E> {
    pub(crate) factors: E,
    pub(crate) bias: E,
}

/// The parameters of training an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trainer<E> {
    pub(crate) shape: Shape,
    pub(crate) mean: f64,
    pub(crate) rate: E,
    /// One divided by the number of factors.
    share: E,
}

impl<E: Element> Trainer<E> {
    pub(crate) fn new(shape: Shape, mean: f64, rate: f64) -> Self {
        Self { shape, mean, rate: E::from_f64(rate), share: E::from_f64(1.0 / shape.rank as f64) }
    }

    /// Trains the values of a row and a column on an entry; returns the error of the prediction before the
    /// step. If the error is not finite, the values do not change.
    ///
    /// # Panics
    /// If the values are not of this shape.
    #[inline(always)]
    pub(crate) fn step<S: Simd>(
        &self,
        simd: S,
        row: &mut [E],
        column: &mut [E],
        value: f64,
        row_decay: Decay<E>,
        column_decay: Decay<E>,
    ) -> E {
        let Shape { rank, bias, .. } = self.shape;
        assert!(row.len() == self.shape.len() && column.len() == self.shape.len(), "values of another shape");
        if self.shape.optimizer == Optimizer::RowAdaGrad {
            return self.step_by_row(simd, row, column, value, row_decay, column_decay);
        }
        let error = E::from_f64(value) - self.shape.predict(self.mean, row, column);
        if !error.finite() {
            return error;
        }
        let (row, row_squares) = row.split_at_mut(self.shape.parameters());
        let (column, column_squares) = column.split_at_mut(self.shape.parameters());
        let (row, row_bias) = row.split_at_mut(rank);
        let (column, column_bias) = column.split_at_mut(rank);
        match self.shape.optimizer {
            Optimizer::Sgd => {
                elementwise([row, column], [], |[r, c], []| {
                    let (down_r, down_c) =
                        (error * c - row_decay.factors * r, error * r - column_decay.factors * c);
                    [r + self.rate * down_r, c + self.rate * down_c]
                });
                if bias {
                    row_bias[0] += self.rate * (error - row_decay.bias * row_bias[0]);
                    column_bias[0] += self.rate * (error - column_decay.bias * column_bias[0]);
                }
            }
            Optimizer::RowAdaGrad => unreachable!("it has a step of its own"),
            Optimizer::AdaGrad => {
                let (row_squares, row_bias_square) = row_squares.split_at_mut(rank);
                let (column_squares, column_bias_square) = column_squares.split_at_mut(rank);
                elementwise(
                    [row, row_squares, column, column_squares],
                    [],
                    |[r, r_square, c, c_square], []| {
                        let (down_r, down_c) =
                            (error * c - row_decay.factors * r, error * r - column_decay.factors * c);
                        let [r, r_square] = self.adapt(r, r_square, down_r);
                        let [c, c_square] = self.adapt(c, c_square, down_c);
                        [r, r_square, c, c_square]
                    },
                );
                if bias {
                    let adapt = |bias: &mut [E], square: &mut [E], decay: E| {
                        [bias[0], square[0]] = self.adapt(bias[0], square[0], error - decay * bias[0]);
                    };
                    adapt(row_bias, row_bias_square, row_decay.bias);
                    adapt(column_bias, column_bias_square, column_decay.bias);
                }
            }
        }
        error
    }

    /// [`Trainer::step`] of [`Optimizer::RowAdaGrad`]. The squares of gradients follow from three inner
    /// products. So one pass over the factors suffices before the pass that changes them.
    #[inline(always)]
    fn step_by_row<S: Simd>(
        &self,
        simd: S,
        row: &mut [E],
        column: &mut [E],
        value: f64,
        row_decay: Decay<E>,
        column_decay: Decay<E>,
    ) -> E {
        let Shape { rank, bias, .. } = self.shape;
        let (row, row_rest) = row.split_at_mut(rank);
        let (column, column_rest) = column.split_at_mut(rank);
        let at = bias as usize;
        let mut sums = [row_rest[at], column_rest[at], row_rest[2 * at], column_rest[2 * at]];
        let roots = |sums: [E; 4]| inverse_roots(simd, sums.map(|sum| sum + E::from_f64(ADAGRAD_EPSILON)));
        // Computed here, where no other operation waits for the result.
        let mut rates = roots(sums);
        let [both, row_square, column_square] = products(simd, row, column);
        let base = if bias { E::from_f64(self.mean) + row_rest[0] + column_rest[0] } else { E::ZERO };
        let error = E::from_f64(value) - (base + both);
        if !error.finite() {
            return error;
        }
        // |error · other − decay · own|².
        let square = |own: E, other: E, decay: E| {
            let cross = error * decay * both;
            let square = error * error * other - (cross + cross) + decay * decay * own;
            // Rounding may make a square of almost zero negative.
            if square > E::ZERO { square } else { E::ZERO }
        };
        let (row_down, column_down) = if bias {
            (error - row_decay.bias * row_rest[0], error - column_decay.bias * column_rest[0])
        } else {
            (E::ZERO, E::ZERO)
        };
        let squares = [
            square(row_square, column_square, row_decay.factors) * self.share,
            square(column_square, row_square, column_decay.factors) * self.share,
            row_down * row_down,
            column_down * column_down,
        ];
        let is_small = (0..4).all(|i| squares[i] <= sums[i]);
        for i in 0..4 {
            sums[i] += squares[i];
        }
        if !is_small {
            // Without this gradient in the sums, the step would be too long.
            rates = roots(sums);
        }
        let rates = rates.map(|rate| self.rate * rate);
        let (row_step, row_keep) = (rates[0] * error, E::ONE - rates[0] * row_decay.factors);
        let (column_step, column_keep) = (rates[1] * error, E::ONE - rates[1] * column_decay.factors);
        elementwise([row, column], [], |[r, c], []| {
            [row_keep * r + row_step * c, column_keep * c + column_step * r]
        });
        if bias {
            (row_rest[0], row_rest[2]) = (row_rest[0] + rates[2] * row_down, sums[2]);
            (column_rest[0], column_rest[2]) = (column_rest[0] + rates[3] * column_down, sums[3]);
        }
        (row_rest[at], column_rest[at]) = (sums[0], sums[1]);
        error
    }

    /// AdaGrad's step of one parameter and its accumulator against its gradient, `-down`.
    #[inline(always)]
    fn adapt(&self, parameter: E, square: E, down: E) -> [E; 2] {
        let square = square + down * down;
        [parameter + self.rate * down / (square + E::from_f64(ADAGRAD_EPSILON)).sqrt(), square]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: f64 = 0.7;
    const ROW: Decay<f64> = Decay { factors: 0.3, bias: 0.2 };
    const COLUMN: Decay<f64> = Decay { factors: 0.05, bias: 0.4 };

    fn shapes() -> impl Iterator<Item = Shape> {
        let ranks = [1, 7, 8, 19];
        ranks.into_iter().flat_map(|rank| {
            [
                (false, Optimizer::Sgd),
                (true, Optimizer::Sgd),
                (false, Optimizer::AdaGrad),
                (true, Optimizer::AdaGrad),
                (false, Optimizer::RowAdaGrad),
                (true, Optimizer::RowAdaGrad),
            ]
            .map(|(bias, optimizer)| Shape { rank, bias, optimizer })
        })
    }

    fn value(shape: Shape, key: u64) -> Vec<f64> {
        let mut value = vec![0.0; shape.len()];
        initialise(5, Key(key), shape.parameters(), 1.0, &mut value);
        // Squares of gradients so far.
        value[shape.parameters()..].iter_mut().enumerate().for_each(|(i, square)| *square = 0.1 * i as f64);
        value
    }

    /// The objective at one entry, by its definition.
    fn objective(shape: Shape, row: &[f64], column: &[f64], target: f64) -> f64 {
        let mut prediction = 0.0;
        let mut penalty = 0.0;
        for i in 0..shape.rank {
            prediction += row[i] * column[i];
            penalty += ROW.factors * row[i] * row[i] + COLUMN.factors * column[i] * column[i];
        }
        if shape.bias {
            let (b, c) = (row[shape.rank], column[shape.rank]);
            prediction += MEAN + b + c;
            penalty += ROW.bias * b * b + COLUMN.bias * c * c;
        }
        0.5 * (target - prediction) * (target - prediction) + 0.5 * penalty
    }

    #[test]
    fn a_step_goes_down_the_numeric_gradient() {
        const TARGET: f64 = 1.9;
        for shape in shapes() {
            let (row, column) = (value(shape, 1), value(shape, 2));
            let (mut new_row, mut new_column) = (row.clone(), column.clone());
            let trainer = Trainer::new(shape, MEAN, 0.01);
            let error = trainer.step(pulp::Scalar, &mut new_row, &mut new_column, TARGET, ROW, COLUMN);
            assert!((error - (TARGET - shape.predict(MEAN, &row, &column))).abs() < 1e-12);
            for side in 0..2 {
                for at in 0..shape.parameters() {
                    let gradient_at = |at: usize| {
                        let moved = |by: f64| {
                            let mut values = [row.clone(), column.clone()];
                            values[side][at] += by;
                            objective(shape, &values[0], &values[1], TARGET)
                        };
                        (moved(1e-5) - moved(-1e-5)) / 2e-5
                    };
                    let gradient = gradient_at(at);
                    let (old, new) = ([&row, &column][side], [&new_row, &new_column][side]);
                    let (step, expected) = match shape.optimizer {
                        Optimizer::Sgd => (new[at] - old[at], -0.01 * gradient),
                        Optimizer::RowAdaGrad => {
                            let is_bias = at >= shape.rank;
                            let all = if is_bias { at..at + 1 } else { 0..shape.rank };
                            let count = all.len() as f64;
                            let mean = all.map(|at| gradient_at(at).powi(2)).sum::<f64>() / count;
                            let square = shape.parameters() + usize::from(is_bias);
                            let sum = old[square] + mean;
                            assert!((new[square] - sum).abs() < 1e-6 * (1.0 + sum), "{shape:?}");
                            (new[at] - old[at], -0.01 * gradient / (sum + ADAGRAD_EPSILON).sqrt())
                        }
                        Optimizer::AdaGrad => {
                            let square = at + shape.parameters();
                            let sum = old[square] + gradient * gradient;
                            assert!((new[square] - sum).abs() < 1e-6 * (1.0 + sum), "{shape:?}");
                            (new[at] - old[at], -0.01 * gradient / (sum + ADAGRAD_EPSILON).sqrt())
                        }
                    };
                    assert!(
                        (step - expected).abs() < 1e-8,
                        "{shape:?}, {side}, {at}: {step}, not {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn initial_values_have_the_scale_asked_for() {
        let mut value = vec![1.0f32; 4096 + 2];
        initialise(1, Key(3), 4096, 0.5, &mut value);
        let square = value[..4096].iter().map(|x| x * x).sum::<f32>() / 4096.0;
        assert!((square.sqrt() / 0.5 - 1.0).abs() < 0.05, "{square}");
        assert_eq!(value[4096..], [0.0, 0.0]);
    }
}
