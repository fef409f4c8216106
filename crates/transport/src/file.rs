//! Files of secrets and certificates, and how many files there can be.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Refuses what is no file, because opening a pipe waits for a writer that may never come.
///
/// # Errors
/// If it is something else, or not there.
pub fn check_is_file(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

/// Checks that this process may open the files of a runtime of tokio and of its signals: tokio panics if it
/// may not open the latter.
///
/// # Errors
/// That of the operating system.
pub fn check_runtime_fits() -> io::Result<()> {
    // An event queue, its alarm, a pair for signals and a copy of one end.
    const PAIRS: usize = 3;
    (0..PAIRS).map(|_| UnixStream::pair()).collect::<io::Result<Vec<_>>>().map(drop)
}
