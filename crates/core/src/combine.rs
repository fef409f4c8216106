//! How the updates that several copies of a value received are combined.

use crate::SharedRule;
use std::fmt;

/// How updates of a key change its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates<'a> {
    /// They are added; those of several copies are combined like this.
    Combined(Combine),
    /// By a rule.
    Rule(&'a SharedRule),
}

/// How the updates that several copies of a value received are combined.
///
/// Each copy sends a *delta*, which says what its node has added since the last synchronisation. Deltas are
/// added to each other and to the main copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Combine {
    /// A delta is the sum of the updates. Right for any value, and the rule of the sources.
    #[default]
    Sum,
    /// The value is trained by AdaGrad: its first half are parameters, its second half the sums of their
    /// squared gradients.
    ///
    /// Each node divides its steps by the root of the squares that its own copy knows. While these are few,
    /// steps are long, and the sum of the steps of many nodes is far too long. So a delta carries the
    /// parameters' change times the root of the copy's squares, and the main copy divides by the root of all
    /// squares: as if it had divided the gradients of all nodes itself. If no other copy has changed, that is
    /// the change of the copy, up to rounding.
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
