//! Addresses, and the stores that they name.
//!
//! A place in an object store is an address, `s3://BUCKET/PREFIX`. It is stored as a path, so that places of
//! both kinds are named, joined and printed alike.

use crate::CheckpointError;
use crate::local::Local;
use crate::store::Store;
use std::path::Path;
use std::sync::Arc;

/// The scheme of an address.
fn scheme(path: &Path) -> Option<&str> {
    // A name that is not valid UTF-8 can still be that of a folder.
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
pub(crate) fn store_of(path: &Path) -> Result<Arc<dyn Store>, CheckpointError> {
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
