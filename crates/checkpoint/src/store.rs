//! Where checkpoints lie: in local folders, or in an object store.
//!
//! A place in an object store is an address, `s3://BUCKET/PREFIX`. It is carried as a path, so that places of
//! both kinds are named, joined and printed alike.

use crate::CheckpointError;
use crate::local::Local;
use crate::manifest::Part;
use std::fmt::Debug;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

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

/// The scheme of an address.
fn scheme(path: &Path) -> Option<&str> {
    // A name that is no text can still be that of a folder.
    let (scheme, _) = path.to_str()?.split_once("://")?;
    (!scheme.contains('/')).then_some(scheme)
}

/// Whether a path is an address, as `s3://BUCKET/PREFIX` is, rather than the path of a local file or folder.
/// `./s3://BUCKET` is a path.
#[must_use]
pub fn is_address(path: &Path) -> bool {
    scheme(path).is_some()
}

/// The store of the place at a path or an address.
pub(crate) fn of(path: &Path) -> Result<Arc<dyn Store>, CheckpointError> {
    match scheme(path) {
        None => Ok(Arc::new(Local)),
        #[cfg(feature = "s3")]
        Some("s3") => Ok(Arc::new(crate::remote::Remote::of(path)?)),
        #[cfg(not(feature = "s3"))]
        Some("s3") => Err(CheckpointError::address(
            path,
            "this program is built without object stores; build it with --features s3",
        )),
        Some(_) => Err(CheckpointError::address(
            path,
            "checkpoints lie in local folders, or in S3-compatible stores at s3://BUCKET/PREFIX",
        )),
    }
}
