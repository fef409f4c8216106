//! The model as arithmetic: the weight of a feature in the value of its key, and what a batch adds to the
//! value.
//!
//! The objective is
//!
//! ```text
//! Σ over rows log(1 + e^(−y · score))  +  l1 · Σ |weight|  +  l2 / 2 · Σ weight²        with y = −1 or 1
//! ```
//!
//! Each rule adds to values and overwrites nothing, so that updates of several workers can be summed. Here, a
//! gradient is the summed gradient of the losses of a batch's rows. A feature with n training rows gets one
//! n-th of its penalty at each of them, so that it is penalised once per epoch. The *passes* of a batch are
//! the sum of these parts.
//!
//! Proximal steps on blocks are in [`crate::proximal`].
//!
//! # FTRL-proximal [McMahan 2013]
//!
//! A value holds z, s and p: the sum of gradients − σ · weight, the sum of σ, and the passes so far, with
//!
//! ```text
//! σ = (√(n + g²) − √n) / α        n: the sum of g² so far
//! weight = 0 if |z| ≤ l1 · p, else −(z − sgn(z) · l1 · p) / (β / α + s + l2 · p)
//! ```
//!
//! The source keeps n; here, n is (α · s)². For one worker this is the same. Two workers that start from the
//! same value together add more σ than one worker with both gradients would. If the rule kept n, the
//! denominator would not be the sum of the σ that are in z, and weights would be too large by the excess for
//! a long time. With s, the denominator is that sum, however many workers add.
//!
//! The source sees each row once, so that its penalty is added once. Here, rows are seen in each epoch: the
//! sum of gradients grows with each pass over the data, and so do the penalties.

use crate::proximal::VISIBLE;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The rule that turns gradients into steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimizer {
    /// FTRL-proximal: steps per feature as with adagrad, L1 and L2. Weights that the L1 penalty keeps at zero
    /// are exactly zero.
    Ftrl,
    /// AdaGrad, with L2: the gradient times the learning rate, divided by the root of the sum of the squares
    /// of all gradients so far.
    #[value(name = "adagrad")]
    AdaGrad,
    /// Plain stochastic gradient descent, with L2: the gradient times the learning rate, divided by the root
    /// of the number of the epoch.
    Sgd,
    /// Proximal gradient steps on blocks of features, with L1 and L2: each step takes the gradient of all
    /// rows.
    Proximal,
}

impl Optimizer {
    /// Whether weights may be zero by an L1 penalty.
    #[must_use]
    pub const fn has_l1(self) -> bool {
        matches!(self, Self::Ftrl | Self::Proximal)
    }
}

/// Added to AdaGrad's accumulator before the root is taken, so that a gradient of zero gives a step of zero.
const ADAGRAD_EPSILON: f64 = 1e-10;

/// The relation between values and weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rule {
    pub(crate) optimizer: Optimizer,
    /// Learning rate; α of FTRL.
    pub(crate) rate: f64,
    pub(crate) beta: f64,
    pub(crate) l1: f64,
    pub(crate) l2: f64,
}

/// Maximum number of elements of a value.
pub(crate) const LEN_MAX: usize = 3;

impl Rule {
    /// Elements of a value.
    pub(crate) const fn len(&self) -> usize {
        match self.optimizer {
            Optimizer::Ftrl => 3,
            Optimizer::Proximal => VISIBLE,
            Optimizer::AdaGrad => 2,
            Optimizer::Sgd => 1,
        }
    }

    /// The weight in a value.
    ///
    /// # Panics
    /// If the value has another length.
    pub(crate) fn weight(&self, value: &[f64]) -> f64 {
        match (self.optimizer, value) {
            (Optimizer::Ftrl, [z, s, passes]) => {
                let threshold = self.l1 * passes;
                if z.abs() <= threshold {
                    return 0.0;
                }
                (threshold.copysign(*z) - z) / (self.beta / self.rate + s + self.l2 * passes)
            }
            (Optimizer::AdaGrad, [weight, _])
            | (Optimizer::Sgd, [weight])
            | (Optimizer::Proximal, [weight, ..]) => *weight,
            _ => panic!("a value of another length"),
        }
    }

    /// The initial value of a feature that has this weight.
    ///
    /// # Panics
    /// If the value has another length.
    pub(crate) fn initial(&self, weight: f64, value: &mut [f64]) {
        assert_eq!(value.len(), self.len(), "a value of another length");
        value.fill(0.0);
        value[0] = match self.optimizer {
            Optimizer::Ftrl if weight == 0.0 => 0.0,
            Optimizer::Ftrl => -weight * self.beta / self.rate,
            Optimizer::AdaGrad | Optimizer::Sgd | Optimizer::Proximal => weight,
        };
    }

    /// The amount that a batch adds to a value whose weight is `weight`. `epoch` is from 0; an intercept has
    /// no passes.
    ///
    /// # Panics
    /// If the value or the update has another length.
    pub(crate) fn update(
        &self,
        (value, weight): (&[f64], f64),
        (gradient, passes, epoch): (f64, f64, u32),
        update: &mut [f64],
    ) {
        match (self.optimizer, value, update) {
            (Optimizer::Ftrl, [_, s, _], [dz, ds, dp]) => {
                // The difference of the roots, without cancellation.
                let root = self.rate * s;
                let sum = root.hypot(gradient) + root;
                let sigma = if sum > 0.0 { gradient * gradient / sum / self.rate } else { 0.0 };
                (*dz, *ds, *dp) = (gradient - sigma * weight, sigma, passes);
            }
            (Optimizer::AdaGrad, [_, squares], [dw, ds]) => {
                let gradient = gradient + self.l2 * passes * weight;
                let square = gradient * gradient;
                (*dw, *ds) = (-self.rate * gradient / (squares + square + ADAGRAD_EPSILON).sqrt(), square);
            }
            (Optimizer::Sgd, [_], [dw]) => {
                let rate = self.rate / (f64::from(epoch) + 1.0).sqrt();
                *dw = -rate * (gradient + self.l2 * passes * weight);
            }
            (Optimizer::Ftrl | Optimizer::AdaGrad | Optimizer::Sgd, ..) => {
                panic!("a value of another length")
            }
            (Optimizer::Proximal, ..) => panic!("blocks compute what they push"),
        }
    }

    /// The penalty of a weight.
    pub(crate) fn penalty(&self, weight: f64) -> f64 {
        self.l1 * weight.abs() + self.l2 / 2.0 * weight * weight
    }
}

/// The logistic function.
#[must_use]
pub fn sigmoid(score: f64) -> f64 {
    let small = (-score.abs()).exp();
    if score < 0.0 { small / (1.0 + small) } else { 1.0 / (1.0 + small) }
}

/// The loss of a row, in nats.
#[must_use]
pub fn log_loss(score: f64, label: bool) -> f64 {
    let x = if label { -score } else { score };
    // log(1 + e^x)
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// The derivative of the loss with respect to the score.
#[must_use]
pub fn slope(score: f64, label: bool) -> f64 {
    if label { -sigmoid(-score) } else { sigmoid(score) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(optimizer: Optimizer) -> Rule {
        Rule { optimizer, rate: 0.1, beta: 1.0, l1: 0.7, l2: 0.3 }
    }

    proptest! {
        #[test]
        fn slopes_are_numeric_derivatives_of_losses(score in -30.0f64..30.0, label: bool) {
            let difference = (log_loss(score + 1e-5, label) - log_loss(score - 1e-5, label)) / 2e-5;
            prop_assert!((slope(score, label) - difference).abs() < 1e-6);
            let naive = (1.0 + (if label { -score } else { score }).exp()).ln();
            prop_assert!((log_loss(score, label) - naive).abs() < 1e-9 * (1.0 + naive));
            prop_assert!((sigmoid(score) + sigmoid(-score) - 1.0).abs() < 1e-12);
        }

        /// The weight of FTRL minimises the function that its documentation states.
        #[test]
        fn the_proximal_step_minimises(z in -50.0f64..50.0, s in 0.0f64..100.0, passes in 0.0f64..20.0) {
            let rule = rule(Optimizer::Ftrl);
            let objective = |w: f64| {
                let curvature = rule.beta / rule.rate + s + rule.l2 * passes;
                z * w + rule.l1 * passes * w.abs() + curvature / 2.0 * w * w
            };
            let weight = rule.weight(&[z, s, passes]);
            for step in [1e-3, 1e-2, 0.1, 1.0] {
                prop_assert!(objective(weight) <= objective(weight + step) + 1e-12);
                prop_assert!(objective(weight) <= objective(weight - step) + 1e-12);
            }
        }

        #[test]
        fn an_initial_value_has_its_weight(weight in -9.0f64..9.0) {
            for optimizer in [Optimizer::Ftrl, Optimizer::AdaGrad, Optimizer::Sgd] {
                let rule = rule(optimizer);
                let mut value = [1.0; LEN_MAX];
                let value = &mut value[..rule.len()];
                rule.initial(weight, value);
                prop_assert!((rule.weight(value) - weight).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn extreme_scores_have_finite_losses() {
        for (score, label, loss) in
            [(1e6, true, 0.0), (1e6, false, 1e6), (-1e6, true, 1e6), (-1e6, false, 0.0)]
        {
            assert_eq!(log_loss(score, label), loss);
            assert!(slope(score, label).is_finite());
        }
        assert_eq!((sigmoid(1e6), sigmoid(-1e6)), (1.0, 0.0));
    }

    /// The algorithm as printed in [McMahan 2013], with z and n.
    #[test]
    fn ftrl_is_the_source_s_algorithm() {
        let rule = rule(Optimizer::Ftrl);
        let (mut z, mut n, mut passes) = (0.0f64, 0.0f64, 0.0);
        let mut value = [0.0; 3];
        for step in 0..200 {
            let gradient = f64::from(step * 37 % 11) / 5.0 - 0.8;
            let weight = if z.abs() <= rule.l1 * passes {
                0.0
            } else {
                -(z - z.signum() * rule.l1 * passes) / ((rule.beta + n.sqrt()) / rule.rate + rule.l2 * passes)
            };
            let here = rule.weight(&value);
            assert!(
                (here - weight).abs() < 1e-10 * (1.0 + weight.abs()),
                "step {step}: {here}, not {weight}"
            );
            let sigma = ((n + gradient * gradient).sqrt() - n.sqrt()) / rule.rate;
            z += gradient - sigma * weight;
            n += gradient * gradient;
            passes += 0.01;
            let mut update = [0.0; 3];
            rule.update((&value, here), (gradient, 0.01, 0), &mut update);
            value.iter_mut().zip(update).for_each(|(x, add)| *x += add);
        }
        assert!(value[1] > 0.0);
    }

    /// The sum of the updates of two concurrent workers is a value in which z and s are consistent: with
    /// gradients of zero mean, the weight stays.
    #[test]
    fn sums_of_concurrent_updates_are_consistent() {
        let rule = Rule { l1: 0.0, l2: 0.0, ..rule(Optimizer::Ftrl) };
        let mut value = [0.0; 3];
        rule.initial(2.0, &mut value);
        for _ in 0..100 {
            let weight = rule.weight(&value);
            let mut sum = value;
            for gradient in [3.0, -3.0, 1.0, -1.0] {
                let mut update = [0.0; 3];
                rule.update((&value, weight), (gradient, 0.1, 0), &mut update);
                sum.iter_mut().zip(update).for_each(|(x, add)| *x += add);
            }
            value = sum;
            assert!((rule.weight(&value) - 2.0).abs() < 1e-9);
        }
    }

    /// Steps go down the gradient of loss and penalty, which the test computes by finite differences.
    #[test]
    fn adagrad_and_sgd_go_down_the_numeric_gradient() {
        let (weight, passes, squares) = (0.8, 0.25, 1.5);
        let of = |w: f64| 2.0 * log_loss(1.5 * w, true) + passes * 0.3 / 2.0 * w * w;
        let numeric = (of(weight + 1e-5) - of(weight - 1e-5)) / 2e-5;
        let gradient = 2.0 * 1.5 * slope(1.5 * weight, true);
        let mut update = [0.0; 1];
        rule(Optimizer::Sgd).update((&[weight], weight), (gradient, passes, 3), &mut update);
        assert!((update[0] - -0.1 / 2.0 * numeric).abs() < 1e-8, "in the fourth epoch half of the rate");
        let mut update = [0.0; 2];
        rule(Optimizer::AdaGrad).update((&[weight, squares], weight), (gradient, passes, 3), &mut update);
        assert!((update[1] - numeric * numeric).abs() < 1e-7);
        assert!((update[0] - -0.1 * numeric / (squares + numeric * numeric).sqrt()).abs() < 1e-8);
    }
}
