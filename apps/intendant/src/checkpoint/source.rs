//! The checkpoints that a path names.

use super::problems::say;
use intendant_checkpoint::{Checkpoint, Folder, is_address};
use intendant_train::TrainError;
use std::path::{Path, PathBuf};

/// The object that a path names.
pub(super) enum Source {
    /// A folder of checkpoints.
    Folder(Folder),
    /// The folder of one checkpoint.
    Cut(PathBuf),
}

impl Source {
    pub(super) fn find(path: &Path) -> Result<Self, TrainError> {
        let refused = |reason: &str| TrainError::usage(format!("{}: {reason}", path.display()));
        if Checkpoint::is_in(path)? {
            return Ok(Self::Cut(path.to_owned()));
        }
        // An object store has no folders, only objects.
        let is_local = !is_address(path);
        if is_local && !path.exists() {
            return Err(refused("there is no such folder; name a folder of checkpoints, or one of its cuts"));
        }
        if is_local && !path.is_dir() {
            return Err(refused("it is no folder; name a folder of checkpoints, or one of its cuts"));
        }
        let folder = Folder::at(path)?;
        if !folder.cuts()?.is_empty() || !folder.unfinished()?.is_empty() {
            return Ok(Self::Folder(folder));
        }
        if folder.has_parts()? {
            return Err(refused(
                "it has no manifest.json, so it is no checkpoint: the cut is being written, or what wrote it has died",
            ));
        }
        Err(refused("there is no checkpoint; name a folder of checkpoints, or one of its cuts"))
    }

    /// The folders of all checkpoints, oldest first.
    pub(super) fn places(&self) -> Result<Vec<PathBuf>, TrainError> {
        match self {
            Self::Folder(folder) => Ok(folder.cuts()?.into_iter().map(|cut| folder.place(cut)).collect()),
            Self::Cut(place) => Ok(vec![place.clone()]),
        }
    }

    /// Cuts that are not checkpoints.
    pub(super) fn unfinished(&self) -> Result<Vec<PathBuf>, TrainError> {
        match self {
            Self::Folder(folder) => {
                Ok(folder.unfinished()?.into_iter().map(|cut| folder.place(cut)).collect())
            }
            Self::Cut(_) => Ok(Vec::new()),
        }
    }

    /// Opens the named checkpoint, or the newest whole one, like `--resume`. Also returns its folder.
    pub(super) fn open(&self) -> Result<(Checkpoint, PathBuf), TrainError> {
        match self {
            Self::Cut(place) => Ok((Checkpoint::open(place)?, place.clone())),
            Self::Folder(folder) => {
                let Some(latest) = folder.latest()? else {
                    let reason = format!("{}: no cut was finished", folder.path().display());
                    return Err(TrainError::usage(reason));
                };
                for skipped in &latest.skipped {
                    say(&format!("a newer checkpoint is passed over: {skipped}"));
                }
                let place = folder.place(latest.checkpoint.manifest().cut);
                Ok((latest.checkpoint, place))
            }
        }
    }
}
