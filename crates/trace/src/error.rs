//! Errors that occur when a trace is written or read.

use std::io;
use std::path::{Path, PathBuf};

/// Why a trace cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A file system operation failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Writing failed midway: later events are missing in the file.
    #[error("cannot write {}: {source}; {dropped} events are missing in it", path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// The number of events that are missing.
        dropped: u64,
        /// The cause.
        source: io::Error,
    },
    /// The file is not a trace, or its start is damaged.
    #[error("{} is no trace: {reason}", path.display())]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file has a format version that this version does not read.
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
    /// The error for a file that cannot be written.
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
