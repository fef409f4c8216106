//! The door through which a trained model leaves.

use crate::error::AppError;
use intendant_core::{Key, KeyRange};

/// Writes a trained model. The values stream by; nobody needs the whole model.
pub trait Exporter<E>: Send {
    /// The parts that follow cover all keys of these ranges.
    ///
    /// # Errors
    /// Any error ends the run.
    fn begin(&mut self, ranges: &[KeyRange]) -> Result<(), AppError>;

    /// Some keys and their values, concatenated. Keys come in no particular order, each exactly once.
    ///
    /// # Errors
    /// Any error ends the run.
    fn part(&mut self, keys: &[Key], values: &[E]) -> Result<(), AppError>;

    /// All keys have been there.
    ///
    /// # Errors
    /// Any error ends the run.
    fn end(&mut self) -> Result<(), AppError>;
}
