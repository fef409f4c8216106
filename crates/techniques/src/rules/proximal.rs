//! Proximal steps at clocks.

use super::{RuleError, check, shrink};
use intendant_core::{Element, Rule, Timing};

/// One proximal gradient step per clock, with an L1 penalty and a curvature per coordinate: the update of the
/// delayed block proximal gradient method [OSDI'14, §5.1, Algorithm 3]. An operand contains the gradient of
/// the loss of a worker's data, followed by a bound of the curvature for each coordinate. Both are sums over
/// the data, so that the operands of all workers add up to the operand of all data.
#[derive(Clone, Debug, PartialEq)]
pub struct Proximal {
    rate: f64,
    l1: f64,
}

impl Proximal {
    /// Steps of `rate` times the gradient divided by the curvature, with penalty `l1` per unit of a
    /// parameter's absolute value. A rate of 1 is the full step; delays require a shorter step.
    ///
    /// # Errors
    /// If the rate is not in (0, 1], or the penalty not finite and at least 0.
    pub fn new(rate: f64, l1: f64) -> Result<Self, RuleError> {
        check("proximal", "the rate", rate, "above 0 and at most 1", |value| value > 0.0 && value <= 1.0)?;
        check("proximal", "l1", l1, "0 or more", |value| value >= 0.0)?;
        Ok(Self { rate, l1 })
    }
}

impl Rule for Proximal {
    fn id(&self) -> String {
        format!("proximal(rate={},l1={})", self.rate, self.l1)
    }

    fn state_len(&self, _visible: usize) -> usize {
        0
    }

    fn operand_len(&self, visible: usize) -> usize {
        2 * visible
    }

    fn timing(&self) -> Timing {
        Timing::Clock
    }

    fn apply<E: Element>(&self, visible: &mut [E], _state: &mut [E], operand: &[E]) {
        let (rate, l1) = (E::from_f64(self.rate), E::from_f64(self.l1));
        let (gradients, curvatures) = operand.split_at(visible.len());
        for ((value, gradient), curvature) in visible.iter_mut().zip(gradients).zip(curvatures) {
            // Without curvature there is nothing to divide by: no data contains the coordinate.
            if *curvature > E::ZERO {
                let step = rate / *curvature;
                *value = shrink(*value - step * *gradient, step * l1);
            }
        }
    }
}
