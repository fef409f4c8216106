//! Why a run failed, and which check found it.

use super::tally::BadRow;
use crate::history::Inconsistency;
use crate::lanes::BadValue;
use crate::registers::BadRegister;
use intendant_sim::Violation;

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A broken invariant of the simulated cluster.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// No order of the operations explains the values that workers saw.
    #[error("history: {0}")]
    Inconsistency(#[from] Inconsistency),
    /// A worker's pulls of a key with replicas contradict its own pushes or its earlier pulls.
    #[error("session: {0}")]
    Session(Inconsistency),
    /// A value that no sequence of pushes produces.
    #[error("values: {0}")]
    Value(#[from] BadValue),
    /// A row whose rule was not applied once per push.
    #[error("rules: {0}")]
    Rule(#[from] BadRow),
    /// A value that no sequence of sets produces.
    #[error("registers: {0}")]
    Register(#[from] BadRegister),
}

impl Failure {
    /// Whether only the order of operations is wrong (not sequentially consistent), and no update is lost or
    /// doubled.
    #[must_use]
    pub const fn is_of_order(&self) -> bool {
        match self {
            Self::Inconsistency(found) => found.is_of_order(),
            Self::Register(found) => found.is_of_order(),
            Self::Violation(_) | Self::Session(_) | Self::Value(_) | Self::Rule(_) => false,
        }
    }

    /// Name of the check that found the failure.
    #[must_use]
    pub const fn check(&self) -> &'static str {
        match self {
            Self::Violation(violation) => violation.check,
            Self::Inconsistency(found) if found.is_of_order() => "history",
            Self::Session(found) if found.is_of_order() => "session",
            Self::Inconsistency(_) | Self::Session(_) => "sums",
            Self::Value(_) => "values",
            Self::Rule(_) => "rules",
            Self::Register(_) => "registers",
        }
    }
}
