//! Errors that occur when the files of a run are read or written.

use intendant_trace::TraceError;
use parquet::errors::ParquetError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a run cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnalysisError {
    /// A file system operation failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file of a node cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The path does not name a run.
    #[error("{}: {reason}", path.display())]
    NotARun {
        /// The file or folder.
        path: PathBuf,
        /// What it is, and what to name instead.
        reason: String,
    },
    /// The files of a folder are not of one run.
    #[error(
        "{} and {} are not of one run: {reason}; give each run a folder of its own",
        first.display(),
        second.display()
    )]
    Mixed {
        /// A file.
        first: PathBuf,
        /// A file that does not belong to it.
        second: PathBuf,
        /// How they differ.
        reason: String,
    },
    /// The run has more events than the caller wants to hold in memory.
    #[error(
        "{} has more than {events_max} events; raise the limit (--max-events; 32 bytes of memory per event), or record fewer keys \
         (--trace-keys 0..1000 or --trace-keys sample:1/1000)",
        path.display()
    )]
    TooMany {
        /// The file or folder.
        path: PathBuf,
        /// The number of events that the caller allows.
        events_max: u64,
    },
    /// A merged file has a schema that this version does not read.
    #[error(
        "{} has the schema '{found}', and this version reads {}; use the version that wrote it",
        path.display(),
        crate::SCHEMA
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: String,
    },
    /// A file is damaged.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A merged file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: ParquetError,
    },
}

impl AnalysisError {
    /// Whether the content of a file is damaged, so that the caller needs another file.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Trace(TraceError::NotATrace { .. }))
    }

    /// Whether the caller named the wrong thing, or too much of it.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::NotARun { .. } | Self::Mixed { .. } | Self::TooMany { .. } | Self::Version { .. } => true,
            Self::Trace(error) => matches!(error, TraceError::Version { .. }),
            Self::Io { .. } | Self::Damaged { .. } | Self::Write { .. } => false,
        }
    }

    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }

    pub(crate) fn not_a_run(path: &Path, reason: impl Into<String>) -> Self {
        Self::NotARun { path: path.to_owned(), reason: reason.into() }
    }

    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.into() }
    }
}
