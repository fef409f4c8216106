//! The weights of penalties, which all models share, and the penalty of real numbers.

use intendant_core::Element;
use intendant_task::kernel::elementwise;

/// Weights of penalties on embeddings, per use of an embedding in a query.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Penalties {
    /// The weight of the sum of cubed moduli, for models that have this penalty.
    pub n3: f64,
    /// The weight of the sum of squares.
    pub l2: f64,
}

impl Penalties {
    /// Adds the gradient of the penalty of an embedding of real numbers that is used `uses` times.
    #[inline(always)]
    pub(super) fn of_reals<E: Element>(self, uses: u32, embedding: &[E], gradient: &mut [E]) {
        let uses = f64::from(uses);
        let (n3, l2) = (E::from_f64(3.0 * self.n3 * uses), E::from_f64(2.0 * self.l2 * uses));
        elementwise([gradient], [embedding], |[gradient], [x]| [gradient + (n3 * x.abs() + l2) * x]);
    }
}
