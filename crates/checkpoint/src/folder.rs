//! The folder of a run's checkpoints.
//!
//! Each checkpoint is a folder `cut-NUMBER`. The checkpoint exists when its manifest exists: the manifest is
//! added, in one step, when all parts are durable. A process that dies before that leaves a folder without a
//! manifest, which no run reads.

use crate::manifest::{Manifest, Part};
use crate::names::{MANIFEST, PART, number, place};
use crate::part::Rows;
use crate::store::Store;
use crate::{Checkpoint, CheckpointError, address};
use intendant_core::Element;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Attempts to take a number that no other run has.
const ATTEMPTS_MAX: u32 = 100;

/// How often checkpoints are looked for while another run removes them.
const LOOKS_MAX: u32 = 5;

/// A folder of checkpoints, on a local disk or in an object store.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    store: Arc<dyn Store>,
}

/// What [`Folder::latest`] found.
#[derive(Debug)]
pub struct Latest {
    /// The newest checkpoint that is whole.
    pub checkpoint: Checkpoint,
    /// Numbers of newer ones, which are damaged.
    pub damaged: Vec<u64>,
    /// The damage of these checkpoints, newest first.
    pub skipped: Vec<CheckpointError>,
}

/// A run's claim to a folder of checkpoints. Dropping the claim gives the folder up, and so does the end of
/// the process.
#[derive(Debug)]
pub struct Claim {
    _lock: Option<File>,
}

impl Folder {
    /// The folder at this path, or at an address in an object store. The folder need not exist yet, and the
    /// call makes no request to a store.
    ///
    /// # Errors
    /// If the address is not supported, or the settings of its store are wrong.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, CheckpointError> {
        let path = path.into();
        let store = address::store_of(&path)?;
        Ok(Self { path, store })
    }

    /// The path, or the address.
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
        let names = self.store.names(&self.path)?;
        let mut cuts: Vec<u64> = names.iter().filter_map(|name| number(Path::new(name))).collect();
        cuts.sort_unstable();
        Ok(cuts)
    }

    /// Numbers of the cuts that have a manifest, or of those that have none, ascending.
    fn with_manifest(&self, wanted: bool) -> Result<Vec<u64>, CheckpointError> {
        let mut cuts = Vec::new();
        for cut in self.all()? {
            if self.store.has(&self.place(cut).join(MANIFEST))? == wanted {
                cuts.push(cut);
            }
        }
        Ok(cuts)
    }

    /// Numbers of the checkpoints, ascending.
    ///
    /// # Errors
    /// If the folder cannot be read. One that does not exist has no checkpoints.
    pub fn cuts(&self) -> Result<Vec<u64>, CheckpointError> {
        self.with_manifest(true)
    }

    /// Numbers of the cuts that were begun and not committed, ascending: they are being written, or their
    /// writer has died.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn unfinished(&self) -> Result<Vec<u64>, CheckpointError> {
        self.with_manifest(false)
    }

    /// Whether there are parts in the folder itself. It is then a cut, not a folder of checkpoints.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn has_parts(&self) -> Result<bool, CheckpointError> {
        Ok(self.store.names(&self.path)?.iter().any(|name| name.ends_with(PART)))
    }

    /// Creates the folder, if there is none, and claims it for a run that will write to it. If two runs wrote
    /// to it at the same time, each would remove the files of the other. Object stores and file systems
    /// without locks do not prevent that.
    ///
    /// # Errors
    /// If another run has claimed the folder ([`CheckpointError::InUse`]), or if it cannot be written to.
    pub fn claim(&self) -> Result<Claim, CheckpointError> {
        self.store.prepare(&self.path)?;
        Ok(Claim { _lock: self.store.claim(&self.path)? })
    }

    /// Starts a cut. Its number is greater than those of all cuts in the folder, and no other run gets it.
    ///
    /// # Errors
    /// If its place cannot be created.
    pub fn begin(&self) -> Result<u64, CheckpointError> {
        self.begin_after(0)
    }

    /// As [`Folder::begin`], with a number that is also greater than `last`, so that a run uses no number
    /// twice, even if it has removed a cut.
    ///
    /// # Errors
    /// If its place cannot be created.
    pub fn begin_after(&self, last: u64) -> Result<u64, CheckpointError> {
        self.store.prepare(&self.path)?;
        for _ in 0..ATTEMPTS_MAX {
            let cut = self.all()?.last().map_or(last, |newest| last.max(*newest)) + 1;
            // If that fails, another run has just taken the number.
            if self.store.take(&self.place(cut))? {
                return Ok(cut);
            }
        }
        let error = io::Error::new(ErrorKind::AlreadyExists, "other runs keep taking the next number");
        Err(CheckpointError::io("begin a checkpoint in", &self.path)(error))
    }

    /// Writes the part called `name` of a cut that was begun, and makes it durable.
    ///
    /// # Errors
    /// If it cannot be written. Nothing of the part is left then, if possible.
    #[inline(never)]
    pub fn write<E: Element>(&self, cut: u64, name: &str, rows: &Rows<E>) -> Result<Part, CheckpointError> {
        let path = self.place(cut).join(format!("{name}{PART}"));
        self.store.write(&path, &|path| rows.write(path))
    }

    /// Commits a cut: from now on it is a checkpoint.
    ///
    /// # Errors
    /// If the manifest cannot be written. In an object store: if there is one already.
    pub fn commit(&self, manifest: &Manifest) -> Result<(), CheckpointError> {
        self.store.commit(&self.place(manifest.cut), &manifest.to_file())
    }

    /// Removes a cut that will not be committed, or a checkpoint, beginning with its manifest. In a local
    /// folder, files that are neither parts nor manifests stay.
    ///
    /// # Errors
    /// If something of it cannot be removed, or other files are in its folder.
    pub fn remove(&self, cut: u64) -> Result<(), CheckpointError> {
        self.store.remove(&self.place(cut))
    }

    /// Removes all checkpoints but the newest `kept` and those with the best models of their runs
    /// ([`Manifest::best`]), and the files of unfinished cuts before the newest checkpoint. Checkpoints that
    /// are `damaged` do not count, and are removed once a newer one exists.
    ///
    /// # Errors
    /// If something cannot be removed. Everything else is removed.
    pub fn keep(&self, kept: usize, damaged: &[u64]) -> Result<(), CheckpointError> {
        let mut committed = self.cuts()?;
        committed.retain(|cut| !damaged.contains(cut));
        let Some(newest) = committed.last() else { return Ok(()) };
        let kept = &committed[committed.len().saturating_sub(kept.max(1))..];
        let mut best = Vec::new();
        for cut in kept {
            match Checkpoint::read_manifest(&*self.store, &self.place(*cut)) {
                Ok(manifest) => best.extend(manifest.best),
                // A manifest that cannot be read now is no reason to remove a checkpoint.
                Err(error @ CheckpointError::Io { .. }) => return Err(error),
                // A checkpoint whose manifest is damaged keeps no other checkpoint.
                Err(_) => {}
            }
        }
        let is_old = |cut: &u64| cut < newest && !kept.contains(cut) && !best.contains(cut);
        let removed = self.all()?.into_iter().filter(is_old).map(|cut| self.remove(cut));
        removed.fold(Ok(()), Result::and)
    }

    /// Opens a checkpoint, and checks all of it.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn open(&self, cut: u64) -> Result<Checkpoint, CheckpointError> {
        Checkpoint::verify_in(&*self.store, &self.place(cut)).map_err(|(first, _)| first)
    }

    /// Opens the newest checkpoint that is whole; `None` if there is no checkpoint.
    ///
    /// # Errors
    /// The damage of the newest checkpoint, if there are checkpoints and none is whole. Also if a later
    /// version has written the newest one, or if something cannot be read now.
    pub fn latest(&self) -> Result<Option<Latest>, CheckpointError> {
        let mut looks = 0;
        loop {
            looks += 1;
            let (found, vanished) = self.look()?;
            // A run that is alive removes old checkpoints when it has made new ones.
            match found {
                Ok(None) | Err(_) if vanished && looks < LOOKS_MAX => {}
                found => return found,
            }
        }
    }

    /// Looks for the newest checkpoint that is whole. The second value says whether another run has removed a
    /// checkpoint meanwhile.
    fn look(&self) -> Result<(Result<Option<Latest>, CheckpointError>, bool), CheckpointError> {
        let (mut damaged, mut skipped, mut vanished) = (Vec::new(), Vec::new(), false);
        for cut in self.cuts()?.into_iter().rev() {
            let error = match self.open(cut) {
                Ok(checkpoint) => return Ok((Ok(Some(Latest { checkpoint, damaged, skipped })), vanished)),
                // The checkpoint is whole for a program that can read it. Using an earlier one in its place
                // would lose work.
                Err(error @ CheckpointError::Version { .. }) => return Err(error),
                Err(error) => error,
            };
            // A part may be missing because a run is removing the checkpoint. Then the manifest has been
            // removed before.
            if !self.store.has(&self.place(cut).join(MANIFEST))? {
                vanished = true;
                continue;
            }
            // A checkpoint that cannot be read now is not damaged.
            if matches!(error, CheckpointError::Io { .. }) {
                return Err(error);
            }
            // A checkpoint with another number may be whole: a user has moved it to this place.
            if !self.is_moved(cut) {
                damaged.push(cut);
            }
            skipped.push(error);
        }
        let found = match skipped.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(None),
        };
        Ok((found, vanished))
    }

    /// Whether the manifest in the place of a checkpoint is that of another checkpoint.
    fn is_moved(&self, cut: u64) -> bool {
        Checkpoint::read_manifest(&*self.store, &self.place(cut)).is_ok_and(|manifest| manifest.cut != cut)
    }
}
