//! The places of checkpoints: local folders, or object stores.

use crate::CheckpointError;
use crate::manifest::Part;
use std::fmt::Debug;
use std::fs::File;
use std::path::Path;

/// The operations of a place for checkpoints.
pub(crate) trait Store: Debug + Send + Sync {
    /// Makes a folder ready for cuts.
    fn prepare(&self, folder: &Path) -> Result<(), CheckpointError>;

    /// Claims a folder that is ready for cuts for a run, as long as the returned value lives. Returns `None`
    /// if the store cannot claim folders.
    fn claim(&self, folder: &Path) -> Result<Option<File>, CheckpointError>;

    /// Names of the entries of a folder; none if the folder does not exist.
    fn names(&self, folder: &Path) -> Result<Vec<String>, CheckpointError>;

    /// Takes the place of a cut; `false` if another run has it.
    fn take(&self, place: &Path) -> Result<bool, CheckpointError>;

    /// Lets `write` write a file, and makes it durable. If the file cannot be written, no part of it is left,
    /// if possible.
    fn write(
        &self,
        file: &Path,
        write: &dyn Fn(&Path) -> Result<Part, CheckpointError>,
    ) -> Result<Part, CheckpointError>;

    /// Adds the manifest to a cut, in one step, when all parts are durable.
    fn commit(&self, place: &Path, manifest: &[u8]) -> Result<(), CheckpointError>;

    /// Removes the files of a cut that a run has written, beginning with the manifest.
    fn remove(&self, place: &Path) -> Result<(), CheckpointError>;

    /// Whether there is such a file.
    fn has(&self, file: &Path) -> Result<bool, CheckpointError>;

    /// The size of a file, if there is one.
    fn size(&self, file: &Path) -> Result<Option<u64>, CheckpointError>;

    /// The content of a small file.
    fn read(&self, file: &Path) -> Result<Vec<u8>, CheckpointError>;

    /// Passes `check` a local folder with those of these files of a cut that exist. Files that `check` has
    /// opened stay readable.
    fn stage(
        &self,
        place: &Path,
        files: &[&str],
        check: Box<dyn FnOnce(&Path) + '_>,
    ) -> Result<(), CheckpointError>;
}
