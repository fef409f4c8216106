//! What can be wrong with a checkpoint.

use std::io;
use std::path::{Path, PathBuf};

/// Why a checkpoint cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file system refused.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file is not what its manifest says, or what a manifest must be.
    #[error("{} is damaged{}: {reason}", path.display(), offset.map_or(String::new(), |at| format!(" at byte {at}")))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first byte of the block of the file that is wrong, if it could be told.
        offset: Option<u64>,
        /// What is wrong.
        reason: String,
    },
    /// The checkpoint was written by a version that this one does not know.
    #[error(
        "{} has the schema {found}, and this version reads {}; use the version that wrote it, or a newer one",
        path.display(),
        crate::SCHEMA
    )]
    Version {
        /// The manifest.
        path: PathBuf,
        /// Its schema.
        found: String,
    },
}

impl CheckpointError {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }

    pub(crate) fn damaged(path: &Path, offset: impl Into<Option<u64>>, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), offset: offset.into(), reason: reason.into() }
    }
}
