//! The folder of a run's checkpoints.
//!
//! Each checkpoint is a folder `cut-NUMBER`. It exists when its manifest does: the manifest is written under
//! another name, made durable and renamed when all parts are durable. What dies before leaves a folder
//! without manifest, which no run reads.

use crate::manifest::{Manifest, Part};
use crate::part::Rows;
use crate::read::{MANIFEST, place};
use crate::{Checkpoint, CheckpointError};
use intendant_core::Element;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A folder of checkpoints.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

/// What [`Folder::latest`] found.
#[derive(Debug)]
pub struct Latest {
    /// The newest checkpoint that is whole.
    pub checkpoint: Checkpoint,
    /// What is wrong with newer ones.
    pub skipped: Vec<CheckpointError>,
}

impl Folder {
    /// The folder at this path. It need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of a checkpoint.
    #[must_use]
    pub fn place(&self, cut: u64) -> PathBuf {
        place(&self.path, cut)
    }

    /// Numbers of all cuts, committed or not, ascending.
    fn all(&self) -> Result<Vec<u64>, CheckpointError> {
        let refused = || CheckpointError::io("list", &self.path);
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            found => found.map_err(refused())?,
        };
        let mut cuts = Vec::new();
        for entry in entries {
            let name = entry.map_err(refused())?.file_name();
            cuts.extend(name.to_str().and_then(|name| name.strip_prefix("cut-")?.parse::<u64>().ok()));
        }
        cuts.sort_unstable();
        Ok(cuts)
    }

    /// Numbers of the checkpoints, ascending.
    ///
    /// # Errors
    /// If the folder cannot be read. One that does not exist has no checkpoints.
    pub fn cuts(&self) -> Result<Vec<u64>, CheckpointError> {
        let mut cuts = self.all()?;
        cuts.retain(|cut| self.place(*cut).join(MANIFEST).exists());
        Ok(cuts)
    }

    /// Numbers of the cuts that were begun and not committed, ascending: they are being written, or their
    /// writer has died.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn unfinished(&self) -> Result<Vec<u64>, CheckpointError> {
        let mut cuts = self.all()?;
        cuts.retain(|cut| !self.place(*cut).join(MANIFEST).exists());
        Ok(cuts)
    }

    /// Starts a cut, with a greater number than all before: creates its folder.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn begin(&self) -> Result<u64, CheckpointError> {
        fs::create_dir_all(&self.path).map_err(CheckpointError::io("create", &self.path))?;
        loop {
            let cut = self.all()?.last().map_or(1, |last| last + 1);
            let place = self.place(cut);
            match fs::create_dir(&place) {
                Ok(()) => return Ok(cut),
                // Another run has just taken the number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(CheckpointError::io("create", &place)(error)),
            }
        }
    }

    /// Writes the part called `name` of a cut that was begun, and makes it durable.
    ///
    /// # Errors
    /// If it cannot be written. Nothing of the part is left then, if that can be helped.
    pub fn write<E: Element>(&self, cut: u64, name: &str, rows: &Rows<E>) -> Result<Part, CheckpointError> {
        let path = self.place(cut).join(format!("{name}.safetensors"));
        let written = rows.write(&path);
        if written.is_err() {
            let _ = fs::remove_file(&path);
        }
        written
    }

    /// Commits a cut: from now on it is a checkpoint.
    ///
    /// # Errors
    /// If the manifest cannot be written.
    pub fn commit(&self, manifest: &Manifest) -> Result<(), CheckpointError> {
        let place = self.place(manifest.cut);
        let partial = place.join(format!("{MANIFEST}.partial"));
        let refused = || CheckpointError::io("write", &partial);
        let mut text = serde_json::to_vec_pretty(manifest).map_err(|error| refused()(error.into()))?;
        text.push(b'\n');
        let mut file = File::create(&partial).map_err(refused())?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(refused())?;
        // Names of parts must be durable before that of the manifest.
        sync(&place)?;
        fs::rename(&partial, place.join(MANIFEST)).map_err(refused())?;
        sync(&place)?;
        sync(&self.path)
    }

    /// Removes a cut that will not be committed, or a checkpoint. Its manifest goes first.
    ///
    /// # Errors
    /// If something of it cannot be removed.
    pub fn remove(&self, cut: u64) -> Result<(), CheckpointError> {
        let place = self.place(cut);
        match fs::remove_file(place.join(MANIFEST)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => fs::remove_dir_all(&place),
        }
        .map_err(CheckpointError::io("remove", &place))
    }

    /// Removes all checkpoints but the newest `kept` and those with the best models of their runs
    /// ([`Manifest::best`]), and what unfinished cuts before the newest one left.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub fn keep(&self, kept: usize) -> Result<(), CheckpointError> {
        let committed = self.cuts()?;
        let Some(newest) = committed.last() else { return Ok(()) };
        let kept = &committed[committed.len().saturating_sub(kept.max(1))..];
        // One whose manifest is damaged keeps no other.
        let best = |cut: &u64| Checkpoint::manifest_in(&self.place(*cut)).ok()?.best;
        let best: Vec<u64> = kept.iter().filter_map(best).collect();
        let is_old = |cut: &u64| cut < newest && !kept.contains(cut) && !best.contains(cut);
        self.all()?.into_iter().filter(is_old).try_for_each(|cut| self.remove(cut))
    }

    /// Opens the newest checkpoint that is whole; `None` if there is no checkpoint.
    ///
    /// # Errors
    /// If there are checkpoints and none is whole: what is wrong with the newest one. If a later version has
    /// written the newest one.
    pub fn latest(&self) -> Result<Option<Latest>, CheckpointError> {
        let mut skipped = Vec::new();
        for cut in self.cuts()?.into_iter().rev() {
            match Checkpoint::open(&self.place(cut)) {
                Ok(checkpoint) => return Ok(Some(Latest { checkpoint, skipped })),
                // It is whole, for whom can read it: an earlier one in its place would lose work.
                Err(error @ CheckpointError::Version { .. }) => return Err(error),
                Err(error) => skipped.push(error),
            }
        }
        match skipped.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(None),
        }
    }
}

fn sync(folder: &Path) -> Result<(), CheckpointError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(CheckpointError::io("sync", folder))
}
