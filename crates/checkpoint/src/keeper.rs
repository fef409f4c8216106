//! What the leader's node does with cuts that are settled: it makes them checkpoints, and removes those that
//! are not needed any more.

use crate::{CheckpointError, Folder, Manifest};

/// The checkpoints of a run, at the node that commits them.
#[derive(Debug)]
pub struct Keeper {
    folder: Folder,
    kept: usize,
    /// Checkpoints that cannot be used: of an earlier run, and those that could not be committed. What a
    /// store does with a request that it did not answer in time is not known.
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
    /// If it cannot be committed. It is not used then, and what is left of it is removed.
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

    /// Removes a cut that becomes no checkpoint. What cannot be removed goes after the next checkpoint.
    pub fn give_up(&self, cut: u64) {
        let _ = self.folder.remove(cut);
    }

    /// After a commit: removes what is not needed any more.
    ///
    /// # Errors
    /// If something cannot be removed. All else is.
    pub fn tidy(&self) -> Result<(), CheckpointError> {
        self.folder.keep(self.kept, &self.damaged)
    }
}
