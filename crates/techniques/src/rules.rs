//! Rules that come with the system: optimisers whose state the owner of a key keeps, so that workers push
//! gradients and pull nothing but parameters.
//!
//! | rule | operand | state per row of n elements | source |
//! | --- | --- | --- | --- |
//! | [`Adam`] | gradient | 2n + 2: both moments, their corrections | Kingma and Ba 2015, Algorithm 1 |
//! | [`RowAdaGrad`] | gradient | 1: the sum of the mean squares | Duchi et al. 2011, one rate per row |
//! | [`Ftrl`] | gradient | 2n: z, and the sum of squares | McMahan et al. 2013, Algorithm 1 |
//! | [`Decay`] | what to add | none | |
//! | [`Proximal`] | gradient and curvature, once per clock | none | OSDI'14, Algorithm 3 |
//!
//! If several workers push before the owner receives their pushes, the owner receives one operand, the sum
//! (see [`intendant_core::Rule`]). The sum of gradients is the gradient of all their batches together. A rule
//! that is not linear then takes one longer step instead of several.
//!
//! A program may have rules of its own:
//!
//! ```
//! use intendant_core::{Element, Rule};
//!
//! /// Gradient descent with momentum: a step is a share `keep` of the previous one and the new gradient.
//! #[derive(Debug)]
//! struct Momentum {
//!     rate: f64,
//!     keep: f64,
//! }
//!
//! impl Rule for Momentum {
//!     fn id(&self) -> String {
//!         format!("momentum(rate={},keep={})", self.rate, self.keep)
//!     }
//!
//!     fn state_len(&self, visible: usize) -> usize {
//!         visible
//!     }
//!
//!     fn apply<E: Element>(&self, visible: &mut [E], state: &mut [E], operand: &[E]) {
//!         let (rate, keep) = (E::from_f64(self.rate), E::from_f64(self.keep));
//!         for ((value, step), gradient) in visible.iter_mut().zip(state).zip(operand) {
//!             *step = keep * *step + *gradient;
//!             *value = *value - rate * *step;
//!         }
//!     }
//! }
//!
//! let rule = Momentum { rate: 0.5, keep: 0.5 };
//! let (mut visible, mut state) = ([1.0], [0.0]);
//! rule.apply(&mut visible, &mut state, &[1.0]);
//! rule.apply(&mut visible, &mut state, &[0.0]);
//! assert_eq!((visible, state), ([0.25], [0.5]));
//! ```
//!
//! The constructor of a rule checks all its parameters, both as they are and rounded to single precision, so
//! that no row can become NaN because of them.

mod adam;
mod decay;
mod ftrl;
mod proximal;
mod row_adagrad;

pub use adam::Adam;
pub use decay::Decay;
pub use ftrl::Ftrl;
pub use proximal::Proximal;
pub use row_adagrad::RowAdaGrad;

use intendant_core::Element;

/// A parameter with a value that the rule does not allow.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{what} of rule {rule} is {value}; it must be {allowed}")]
pub struct RuleError {
    /// Name of the rule.
    pub rule: &'static str,
    /// Name of the parameter.
    pub what: &'static str,
    /// Its value.
    pub value: f64,
    /// The values that are allowed.
    pub allowed: &'static str,
}

/// Checks one parameter, in both precisions.
fn check(
    rule: &'static str,
    what: &'static str,
    value: f64,
    allowed: &'static str,
    is_allowed: impl Fn(f64) -> bool,
) -> Result<(), RuleError> {
    let single = f64::from(value as f32);
    if single.is_finite() && is_allowed(value) && is_allowed(single) {
        return Ok(());
    }
    Err(RuleError { rule, what, value, allowed })
}

/// `value`, moved towards zero by `by`, and not beyond.
fn shrink<E: Element>(value: E, by: E) -> E {
    if value > by {
        value - by
    } else if value < -by {
        value + by
    } else {
        E::ZERO
    }
}

#[cfg(test)]
mod tests;
