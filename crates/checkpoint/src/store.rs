//! Where checkpoints lie: in local folders, or in an object store.

use crate::CheckpointError;
use crate::manifest::Part;
use std::fmt::Debug;
use std::fs::File;
use std::path::Path;

/// What a place for checkpoints does.
pub(crate) trait Store: Debug + Send + Sync {
    /// Makes a folder ready for cuts.
    fn prepare(&self, folder: &Path) -> Result<(), CheckpointError>;

    /// Claims a folder that is ready for cuts for a run, as long as what is returned lives; nothing where
    /// that is not possible.
    fn claim(&self, folder: &Path) -> Result<Option<File>, CheckpointError>;

    /// Names of what is in a folder; none if it does not exist.
    fn names(&self, folder: &Path) -> Result<Vec<String>, CheckpointError>;

    /// Takes the place of a cut; `false` if another run has it.
    fn take(&self, place: &Path) -> Result<bool, CheckpointError>;

    /// Lets `write` write a file, and makes it durable. If it cannot be written, nothing of it is left, if
    /// that can be helped.
    fn write(
        &self,
        file: &Path,
        write: &dyn Fn(&Path) -> Result<Part, CheckpointError>,
    ) -> Result<Part, CheckpointError>;

    /// Adds the manifest to a cut, in one step, when all parts are durable.
    fn commit(&self, place: &Path, manifest: &[u8]) -> Result<(), CheckpointError>;

    /// Removes what a run has written of a cut; its manifest goes first.
    fn remove(&self, place: &Path) -> Result<(), CheckpointError>;

    /// Whether there is such a file.
    fn has(&self, file: &Path) -> Result<bool, CheckpointError>;

    /// The size of a file, if there is one.
    fn size(&self, file: &Path) -> Result<Option<u64>, CheckpointError>;

    /// The content of a small file.
    fn read(&self, file: &Path) -> Result<Vec<u8>, CheckpointError>;

    /// Hands `check` a local folder with these files of a cut, those that exist. What `check` has opened
    /// stays readable.
    fn stage(
        &self,
        place: &Path,
        files: &[&str],
        check: Box<dyn FnOnce(&Path) + '_>,
    ) -> Result<(), CheckpointError>;
}
