//! The weights of penalties, which all models share.

/// Weights of penalties on embeddings, per use of an embedding in a query.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Penalties {
    /// The weight of the sum of cubed moduli of the complex numbers; only some models have complex numbers.
    pub n3: f64,
    /// The weight of the sum of squares.
    pub l2: f64,
}
