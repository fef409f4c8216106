//! Checkpoints in local folders.
//!
//! The manifest is written under another name, made durable and renamed when all parts are durable.

use crate::CheckpointError;
use crate::manifest::Part;
use crate::names::{MANIFEST, PART};
use crate::store::Store;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The file that a run locks.
const LOCK: &str = ".lock";

/// The manifest before it is durable.
const PARTIAL: &str = "manifest.json.partial";

/// A step of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The manifest is written under its first name.
    Write,
    /// The content of the manifest is made durable.
    SyncManifest,
    /// The names in the folder of the cut are made durable: those of its parts, and of the manifest.
    SyncPlace,
    /// The manifest gets its final name.
    Rename,
    /// The name of the folder of the cut is made durable.
    SyncParent,
}

/// The steps of a commit, in their order. Wherever the machine stops, a manifest that has its final name is
/// whole, and so are the parts that it names: their contents were made durable when they were written.
const COMMIT: [Step; 6] = [
    Step::Write,
    Step::SyncManifest,
    // Names of parts must be durable before that of the manifest.
    Step::SyncPlace,
    Step::Rename,
    Step::SyncPlace,
    Step::SyncParent,
];

/// Local folders.
#[derive(Debug)]
pub(crate) struct Local;

impl Store for Local {
    fn prepare(&self, folder: &Path) -> Result<(), CheckpointError> {
        let created = match fs::metadata(folder) {
            Ok(found) if !found.is_dir() => Err(ErrorKind::NotADirectory.into()),
            Ok(_) => return Ok(()),
            Err(_) => fs::create_dir_all(folder),
        };
        created.map_err(CheckpointError::io("create", folder))?;
        // The folder's own name should be durable as well; not every parent may be opened.
        if let Some(parent) = folder.parent() {
            let _ = sync(parent);
        }
        Ok(())
    }

    fn claim(&self, folder: &Path) -> Result<Option<File>, CheckpointError> {
        let path = folder.join(LOCK);
        let open = match File::options().create(true).truncate(false).write(true).open(&path) {
            // Another user of the folder has made the file: it can be locked nevertheless.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => File::open(&path).map_err(|_| error),
            open => open,
        };
        let file = open.map_err(CheckpointError::io("write", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Err(CheckpointError::InUse { path: folder.to_owned() }),
            // Not every file system has locks.
            Err(TryLockError::Error(_)) => Ok(None),
        }
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>, CheckpointError> {
        let refused = || CheckpointError::io("list", folder);
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            found => found.map_err(refused())?,
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry.map_err(refused())?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn take(&self, place: &Path) -> Result<bool, CheckpointError> {
        match fs::create_dir(place) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(CheckpointError::io("create", place)(error)),
        }
    }

    fn write(
        &self,
        file: &Path,
        write: &dyn Fn(&Path) -> Result<Part, CheckpointError>,
    ) -> Result<Part, CheckpointError> {
        let written = write(file);
        if written.is_err() {
            let _ = fs::remove_file(file);
        }
        written
    }

    fn commit(&self, place: &Path, manifest: &[u8]) -> Result<(), CheckpointError> {
        let partial = place.join(PARTIAL);
        let refused = || CheckpointError::io("write", &partial);
        for step in COMMIT {
            match step {
                Step::Write => fs::write(&partial, manifest).map_err(refused())?,
                Step::SyncManifest => {
                    File::open(&partial).and_then(|file| file.sync_all()).map_err(refused())?;
                }
                Step::SyncPlace => sync(place)?,
                Step::Rename => fs::rename(&partial, place.join(MANIFEST)).map_err(refused())?,
                Step::SyncParent => place.parent().map_or(Ok(()), sync)?,
            }
        }
        Ok(())
    }

    fn remove(&self, place: &Path) -> Result<(), CheckpointError> {
        let refused = || CheckpointError::io("remove", place);
        let gone = |path: &Path| match fs::remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        };
        gone(&place.join(MANIFEST)).map_err(refused())?;
        // This removes only files that a run has written.
        for name in self.names(place)?.iter().filter(|name| is_written(name)) {
            gone(&place.join(name)).map_err(refused())?;
        }
        match fs::remove_dir(place) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(refused()),
        }
    }

    fn has(&self, file: &Path) -> Result<bool, CheckpointError> {
        // An error does not mean that the file is absent: a cut that cannot be read must not be taken for
        // unfinished.
        match file.try_exists() {
            Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(false),
            found => found.map_err(CheckpointError::io("read", file)),
        }
    }

    fn size(&self, file: &Path) -> Result<Option<u64>, CheckpointError> {
        match fs::metadata(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            found => Ok(Some(found.map_err(CheckpointError::io("read", file))?.len())),
        }
    }

    fn read(&self, file: &Path) -> Result<Vec<u8>, CheckpointError> {
        open(file)
            .and_then(|mut opened| {
                let mut text = Vec::new();
                opened.read_to_end(&mut text).map(|_| text)
            })
            .map_err(CheckpointError::io("read", file))
    }

    fn stage(
        &self,
        place: &Path,
        _: &[&str],
        check: Box<dyn FnOnce(&Path) + '_>,
    ) -> Result<(), CheckpointError> {
        check(place);
        Ok(())
    }
}

/// Whether a name in the folder of a cut is that of a file that a run writes: a manifest, a part, or a file
/// under the name that it has before it is complete.
fn is_written(name: &str) -> bool {
    name == MANIFEST || name == PARTIAL || name.ends_with(PART) || name.starts_with(".tmp")
}

/// Opens a file to read it. A pipe is refused, because opening it waits for a writer that may never come.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.is_file() {
        return File::open(path);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"))
}

fn sync(folder: &Path) -> Result<(), CheckpointError> {
    // A relative path of one component lies in the folder that has no name.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(CheckpointError::io("sync", folder))
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
