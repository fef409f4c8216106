//! Values that decay.

use super::{RuleError, check};
use intendant_core::{Element, Rule};

/// Adds operands to a value, which loses a share of itself before each addition: for weight decay, and for
/// averages that forget old operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Decay {
    share: f64,
}

impl Decay {
    /// A value loses `share` of itself before an operand is added.
    ///
    /// # Errors
    /// If the share is not in [0, 1].
    pub fn new(share: f64) -> Result<Self, RuleError> {
        check("decay", "the share", share, "from 0 to 1", |value| (0.0..=1.0).contains(&value))?;
        Ok(Self { share })
    }
}

impl Rule for Decay {
    fn id(&self) -> String {
        format!("decay(share={})", self.share)
    }

    fn state_len(&self, _visible: usize) -> usize {
        0
    }

    fn apply<E: Element>(&self, visible: &mut [E], _state: &mut [E], operand: &[E]) {
        let keep = E::from_f64(1.0 - self.share);
        for (value, add) in visible.iter_mut().zip(operand) {
            *value = *value * keep + *add;
        }
    }
}
