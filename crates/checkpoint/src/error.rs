//! Errors of checkpoints.

use std::io;
use std::path::{Path, PathBuf};

/// Why a checkpoint cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file system or the object store refused.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file or folder, or its address.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file differs from its manifest, or a manifest is malformed.
    #[error("{} is damaged{}: {reason}", path.display(), offset.map_or(String::new(), |at| format!(" at byte {at}")))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first byte of the wrong block of the file, if it is known.
        offset: Option<u64>,
        /// What is wrong.
        reason: String,
    },
    /// Another run writes checkpoints to the folder.
    #[error("{} is in use by another run; wait until it has ended, or name another folder", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
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
    /// An address is not supported, or the settings of its store are wrong.
    #[error("{}: {reason}", path.display())]
    Address {
        /// The address.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
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

    pub(crate) fn address(path: &Path, reason: impl Into<String>) -> Self {
        Self::Address { path: path.to_owned(), reason: reason.into() }
    }

    /// The same error for a file of the folder `to`, of which `from` has a copy.
    pub(crate) fn moved(mut self, from: &Path, to: &Path) -> Self {
        let (Self::Io { path, .. }
        | Self::Damaged { path, .. }
        | Self::Version { path, .. }
        | Self::InUse { path }
        | Self::Address { path, .. }) = &mut self;
        if let Ok(file) = path.strip_prefix(from) {
            *path = to.join(file);
        }
        self
    }
}
