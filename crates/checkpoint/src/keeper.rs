//! The leader's node makes settled cuts checkpoints, and removes checkpoints that are not needed any more.

use crate::{CheckpointError, Folder, Manifest};

/// The checkpoints of a run, at the node that commits them.
#[derive(Debug)]
pub struct Keeper {
    folder: Folder,
    kept: usize,
    /// Numbers of checkpoints that cannot be used: those of an earlier run, and those that could not be
    /// committed. A store may still execute a request that it did not answer in time.
    damaged: Vec<u64>,
}

impl Keeper {
    /// Keeps the newest `kept` checkpoints of the folder that are not among the `damaged` ones.
    #[must_use]
    pub const fn new(folder: Folder, kept: usize, damaged: Vec<u64>) -> Self {
        Self { folder, kept, damaged }
    }

    /// Commits a cut: from now on it is a checkpoint.
    ///
    /// # Errors
    /// If it cannot be committed. The cut is not used then, and the rest of it is removed.
    pub fn commit(&mut self, manifest: &Manifest) -> Result<(), CheckpointError> {
        let committed = self.folder.commit(manifest);
        if committed.is_err() {
            self.refused(manifest.cut);
        }
        committed
    }

    /// A commit was refused, or not answered.
    pub fn refused(&mut self, cut: u64) {
        self.damaged.push(cut);
        self.give_up(cut);
    }

    /// Removes a cut that becomes no checkpoint. Files that cannot be removed now are removed after the next
    /// checkpoint.
    pub fn give_up(&self, cut: u64) {
        let _ = self.folder.remove(cut);
    }

    /// Removes, after a commit, the checkpoints and cuts that are not needed any more.
    ///
    /// # Errors
    /// If something cannot be removed. Everything else is removed.
    pub fn tidy(&self) -> Result<(), CheckpointError> {
        self.folder.keep(self.kept, &self.damaged)
    }
}
