//! FTRL-Proximal.

use super::{RuleError, check, shrink};
use intendant_core::{Element, Rule};

/// FTRL-Proximal: parameters that minimise all gradients so far, with a rate per coordinate and with L1 and
/// L2 penalties, so that parameters of little use are exactly zero [McMahan et al. 2013, Algorithm 1].
/// A first value other than 0, initial or set, enters the sum of gradients with the first push.
#[derive(Clone, Debug, PartialEq)]
pub struct Ftrl {
    alpha: f64,
    beta: f64,
    l1: f64,
    l2: f64,
}

impl Ftrl {
    /// With rate `alpha`, which begins to fall later if `beta` is larger, and penalties `l1` and `l2`.
    ///
    /// # Errors
    /// If a parameter is not finite, alpha not above 0, or another one below 0. Beta and L2 must not both be
    /// 0.
    pub fn new(alpha: f64, beta: f64, l1: f64, l2: f64) -> Result<Self, RuleError> {
        check("ftrl", "alpha", alpha, "above 0", |value| value > 0.0)?;
        for (what, value) in [("beta", beta), ("l1", l1), ("l2", l2)] {
            check("ftrl", what, value, "0 or more", |value| value >= 0.0)?;
        }
        let has_l2 = l2 as f32 > 0.0;
        check("ftrl", "beta", beta, "above 0 if l2 is 0", |value| value > 0.0 || has_l2)?;
        check("ftrl", "beta / alpha", beta / alpha, "above 0 if l2 is 0", |value| value > 0.0 || has_l2)?;
        Ok(Self { alpha, beta, l1, l2 })
    }
}

impl Rule for Ftrl {
    fn id(&self) -> String {
        let Self { alpha, beta, l1, l2 } = self;
        format!("ftrl(alpha={alpha},beta={beta},l1={l1},l2={l2})")
    }

    fn state_len(&self, visible: usize) -> usize {
        2 * visible
    }

    fn apply<E: Element>(&self, visible: &mut [E], state: &mut [E], operand: &[E]) {
        let [alpha, beta, l1, l2] = [self.alpha, self.beta, self.l1, self.l2].map(E::from_f64);
        let (sums, squares) = state.split_at_mut(visible.len());
        for (((value, sum), square), gradient) in visible.iter_mut().zip(sums).zip(squares).zip(operand) {
            let before = square.sqrt();
            *square += *gradient * *gradient;
            let now = square.sqrt();
            *sum += *gradient - (now - before) / alpha * *value;
            *value = -shrink(*sum, l1) / ((beta + now) / alpha + l2);
        }
    }
}
