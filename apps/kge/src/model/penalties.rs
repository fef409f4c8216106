//! The weights of penalties, which all models share.

/// Weights of penalties on embeddings, per use of an embedding in a query.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Penalties {
    /// Of the sum of cubed moduli of the complex numbers; only ComplEx has some.
    pub n3: f64,
    /// Of the sum of squares.
    pub l2: f64,
}
