//! Why a dashboard cannot be started.

use intendant_web::BindError;
use std::io;
use std::path::PathBuf;

/// Why a dashboard cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DashboardError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another address with --listen HOST:PORT")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// The address can be reached from other machines, and no token was given.
    #[error(
        "{address} can be reached from other machines, so the dashboard needs a token: write 32 or more random \
         hexadecimal digits to a file (openssl rand -hex 32), and name it with --token-file FILE"
    )]
    Open {
        /// The address.
        address: String,
    },
    /// There is no such trace.
    #[error(
        "there is no trace at {}: name a folder with node-N.trace files, one such file, or a merged file",
        path.display()
    )]
    Missing {
        /// The path that was named.
        path: PathBuf,
    },
    /// None of the traces that were named can be shown.
    #[error("none of the traces can be shown: {}", reasons.join("; "))]
    Unusable {
        /// The reasons, trace by trace.
        reasons: Vec<String>,
    },
    /// Another operation of the operating system failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
}

impl From<BindError> for DashboardError {
    fn from(error: BindError) -> Self {
        match error {
            BindError::Listen { address, source } => Self::Listen { address, source },
            BindError::Open { address } => Self::Open { address },
        }
    }
}

impl DashboardError {
    /// Whether the caller must start the dashboard with other settings.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Listen { .. } | Self::Open { .. } | Self::Missing { .. } | Self::Unusable { .. } => true,
            Self::System { .. } => false,
        }
    }
}
