//! AdaGrad with one rate per row.

use super::{RuleError, check};
use intendant_core::{Element, Rule};

/// AdaGrad with one accumulator per row, of the mean squares of gradients [Duchi et al. 2011; per row as
/// recommenders with large embeddings use it]: a row grows by one element instead of doubling.
#[derive(Clone, Debug, PartialEq)]
pub struct RowAdaGrad {
    rate: f64,
    epsilon: f64,
}

impl RowAdaGrad {
    /// With step size `rate`, and `epsilon` added to the root.
    ///
    /// # Errors
    /// If a parameter is not finite and above 0.
    pub fn new(rate: f64, epsilon: f64) -> Result<Self, RuleError> {
        check("row-adagrad", "the rate", rate, "above 0", |value| value > 0.0)?;
        check("row-adagrad", "epsilon", epsilon, "above 0", |value| value > 0.0)?;
        Ok(Self { rate, epsilon })
    }
}

impl Rule for RowAdaGrad {
    fn id(&self) -> String {
        format!("row-adagrad(rate={},epsilon={})", self.rate, self.epsilon)
    }

    fn state_len(&self, _visible: usize) -> usize {
        1
    }

    fn apply<E: Element>(&self, visible: &mut [E], state: &mut [E], operand: &[E]) {
        let mut squares = E::ZERO;
        operand.iter().for_each(|gradient| squares += *gradient * *gradient);
        state[0] += squares / E::from_f64(operand.len() as f64);
        let step = E::from_f64(self.rate) / (state[0].sqrt() + E::from_f64(self.epsilon));
        for (value, gradient) in visible.iter_mut().zip(operand) {
            *value -= step * *gradient;
        }
    }
}
