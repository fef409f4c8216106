//! Adam.

use super::{RuleError, check};
use intendant_core::{Element, Rule};

/// Adam: steps along the mean gradient, divided by the root of the mean square, both over recent operands and
/// corrected for their start at zero [Kingma and Ba 2015, Algorithm 1]. Each row counts its own steps, as
/// sparse (lazy) variants do: a row that gets no operand does not move.
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    rate: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
}

impl Adam {
    /// With step size `rate`, decay rates `beta1` and `beta2` of the moments, and `epsilon` added to the
    /// root. The source uses 0.001, 0.9, 0.999 and 1e-8.
    ///
    /// # Errors
    /// If a parameter is not finite, the rate or epsilon not above 0, or a decay rate not in [0, 1).
    pub fn new(rate: f64, beta1: f64, beta2: f64, epsilon: f64) -> Result<Self, RuleError> {
        let positive = |what, value| check("adam", what, value, "above 0", |value| value > 0.0);
        let share = |what, value| {
            check("adam", what, value, "at least 0 and below 1", |value| (0.0..1.0).contains(&value))
        };
        positive("the rate", rate)?;
        share("beta1", beta1)?;
        share("beta2", beta2)?;
        positive("epsilon", epsilon)?;
        Ok(Self { rate, beta1, beta2, epsilon })
    }
}

impl Rule for Adam {
    fn id(&self) -> String {
        let Self { rate, beta1, beta2, epsilon } = self;
        format!("adam(rate={rate},beta1={beta1},beta2={beta2},epsilon={epsilon})")
    }

    fn state_len(&self, visible: usize) -> usize {
        2 * visible + 2
    }

    fn apply<E: Element>(&self, visible: &mut [E], state: &mut [E], operand: &[E]) {
        let [rate, epsilon] = [self.rate, self.epsilon].map(E::from_f64);
        let keep = [self.beta1, self.beta2].map(E::from_f64);
        let take = keep.map(|keep| E::ONE - keep);
        let (means, rest) = state.split_at_mut(visible.len());
        let (squares, weights) = rest.split_at_mut(visible.len());
        // The weights are the moments for gradients that are all 1, so they equal 1 - beta^t. The moments are
        // divided by them.
        for (weight, (keep, take)) in weights.iter_mut().zip(keep.iter().zip(&take)) {
            *weight = *keep * *weight + *take;
        }
        let (of_mean, of_square) = (weights[0], weights[1]);
        for (((value, mean), square), gradient) in visible.iter_mut().zip(means).zip(squares).zip(operand) {
            *mean = keep[0] * *mean + take[0] * *gradient;
            *square = keep[1] * *square + take[1] * *gradient * *gradient;
            *value -= rate * (*mean / of_mean) / ((*square / of_square).sqrt() + epsilon);
        }
    }
}
