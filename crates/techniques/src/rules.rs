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
//! What several workers push before it reaches the owner is one operand, the sum (see
//! [`intendant_core::Rule`]). For a gradient this is the gradient of their batches together. A rule that is
//! not linear takes one longer step then, in place of several.
//!
//! All parameters are checked when a rule is made, also as the nearest numbers of single precision, so that
//! no row can become NaN because of them.

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

/// A parameter of a rule that it cannot work with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{what} of rule {rule} is {value}; it must be {allowed}")]
pub struct RuleError {
    /// Name of the rule.
    pub rule: &'static str,
    /// Name of the parameter.
    pub what: &'static str,
    /// Its value.
    pub value: f64,
    /// What it can be.
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
