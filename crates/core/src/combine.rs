//! How the updates that several copies of a value received are combined.

use crate::SharedRule;
use std::fmt;

/// How updates of a key change its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates<'a> {
    /// Updates are added; updates of several copies are combined in this way.
    Combined(Combine),
    /// A rule applies updates.
    Rule(&'a SharedRule),
}

/// How the updates that several copies of a value received are combined.
///
/// Each copy sends a *delta*, the updates that its node has added since the last synchronisation. Deltas are
/// added to each other and to the main copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Combine {
    /// A delta is the sum of the updates. This is correct for any value, and the cited systems do it.
    #[default]
    Sum,
    /// The value is trained by AdaGrad: its first half holds the parameters, its second half the sums of
    /// their squared gradients.
    ///
    /// Each node divides its steps by the root of its own copy's sum of squares. While this sum is small,
    /// steps are long, and the sum of the steps of many nodes is far too long. So a delta carries the change
    /// of the parameters times the root of the copy's sum, and the main copy divides it by the root of the
    /// sum over all copies, as if it had divided the gradients of all nodes itself. If no other copy has
    /// changed, the result is the change of the copy, up to rounding.
    AdaGrad,
}

impl fmt::Display for Combine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::AdaGrad => "adagrad",
        })
    }
}
