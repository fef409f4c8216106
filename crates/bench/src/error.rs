//! Errors that end a measurement early.

use intendant::launch::LaunchError;
use intendant::{DistributionError, LayoutError, RendezvousError};
use std::io;

/// Why a measurement ended early; [`BenchError::exit_code`] is the exit code of the program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// What was asked for cannot be measured.
    #[error("{0}")]
    Usage(String),
    /// A node of the measurement failed.
    #[error("{0}")]
    Node(#[from] intendant::Error),
    /// The peer could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The connection whose speed is the limit broke.
    #[error("the plain connection to the other node, whose speed is the limit: {what}: {source}")]
    Plain {
        /// What was attempted.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The operating system reported an error, or the other node did not follow the protocol of the
    /// measurement.
    #[error("{0}")]
    Other(String),
}

impl BenchError {
    /// 2 if the user has to change something, 4 if the other node was lost, else 1.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Node(error) => error.exit_code(),
            Self::Launch(error) => error.exit_code(),
            // The other node's process is gone, or does not answer.
            Self::Plain { .. } => 4,
            Self::Other(_) => 1,
        }
    }

    /// The argument of `map_err` for errors of the plain connection.
    pub(crate) fn plain(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Plain { what, source }
    }
}

impl From<LayoutError> for BenchError {
    fn from(error: LayoutError) -> Self {
        Self::Node(error.into())
    }
}

impl From<RendezvousError> for BenchError {
    fn from(error: RendezvousError) -> Self {
        Self::Node(error.into())
    }
}

impl From<DistributionError> for BenchError {
    fn from(error: DistributionError) -> Self {
        Self::Usage(error.to_string())
    }
}
