//! What can be wrong with a file of events.

use std::io;
use std::path::{Path, PathBuf};

/// Why a trace cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file system refused.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file was written up to a moment, and not after it.
    #[error("cannot write {}: {source}; {dropped} events are missing in it", path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// Events that are not in it.
        dropped: u64,
        /// Why not.
        source: io::Error,
    },
    /// The file is no trace, or its start is damaged.
    #[error("{} is no trace: {reason}", path.display())]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file was written by a version that this one does not know.
    #[error(
        "{} has version {found}, and this program reads {}; use the version that wrote it",
        path.display(),
        crate::VERSION
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}

impl TraceError {
    /// A file cannot be written.
    #[must_use]
    pub fn write(path: &Path, source: io::Error) -> Self {
        Self::Io { what: "write", path: path.to_owned(), source }
    }

    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }

    pub(crate) fn not_a_trace(path: &Path, reason: impl Into<String>) -> Self {
        Self::NotATrace { path: path.to_owned(), reason: reason.into() }
    }
}
