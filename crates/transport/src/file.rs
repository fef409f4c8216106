//! Checks of files that hold secrets and certificates, and of how many files this process may open.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Refuses a path that is not a regular file: opening a pipe would wait for a writer that may never come.
///
/// # Errors
/// If the path is something else, or does not exist.
pub fn check_is_file(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

/// Whether a file can be read by users that are neither its owner nor in its group.
pub fn is_readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o004 != 0)
}

/// Checks that this process may open the file descriptors that a tokio runtime and its signal handling need:
/// tokio panics if it cannot open those for signals.
///
/// # Errors
/// The error of the operating system.
pub fn check_runtime_fits() -> io::Result<()> {
    // An event queue, the descriptor that wakes it, a pair for signals, and a copy of one end of that pair.
    const PAIRS: usize = 3;
    (0..PAIRS).map(|_| UnixStream::pair()).collect::<io::Result<Vec<_>>>().map(drop)
}
