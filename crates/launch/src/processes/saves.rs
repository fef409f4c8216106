//! How the launcher knows that nodes have saved their state since it started them: a pipe from node 0.
//!
//! What is saved, and where, is the nodes' business; so a signal is all that they send.

use crate::rendezvous::variable;
use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::OnceLock;

/// The launcher's end, and its copy of the nodes' end.
pub(super) struct Saves {
    reader: File,
    writer: OwnedFd,
}

impl Saves {
    pub(super) fn new() -> io::Result<Self> {
        // Neither end waits: not the launcher for nodes, and not node 0 if the pipe is full.
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { reader: reader.into(), writer })
    }

    /// The nodes' end.
    pub(super) fn raw(&self) -> RawFd {
        self.writer.as_raw_fd()
    }

    /// Whether nodes have saved their state since the last call.
    pub(super) fn any(&mut self) -> bool {
        let (mut any, mut bytes) = (false, [0; 4096]);
        while self.reader.read(&mut bytes).is_ok_and(|count| count > 0) {
            any = true;
        }
        any
    }
}

/// Tells the launcher, if [`super::Launch`] started this process as node 0, that the nodes have saved their
/// state: should they have to be started again, they do not lose what they have done so far. Else it has no
/// effect.
pub fn tell_saved() {
    static PIPE: OnceLock<Option<File>> = OnceLock::new();
    if let Some(mut pipe) = PIPE.get_or_init(inherited).as_ref() {
        // A full pipe says it already; without a launcher there will be no restart.
        let _ = pipe.write(&[1]);
    }
}

/// The pipe that this process inherited. A descriptor that is none is left alone.
fn inherited() -> Option<File> {
    let fd: RawFd = std::env::var(variable::SAVED_FD).ok()?.parse().ok().filter(|fd| *fd > 2)?;
    if !std::fs::metadata(format!("/dev/fd/{fd}")).ok()?.file_type().is_fifo() {
        return None;
    }
    // SAFETY: the descriptor is open, as was just seen. The launcher left it open for this purpose, names it
    // in a variable of this process, and nothing else in this process reads that variable.
    #[expect(unsafe_code, reason = "a descriptor from the other side of an exec")]
    let pipe = unsafe { File::from_raw_fd(fd) };
    if !rustix::fs::fcntl_getfl(&pipe).is_ok_and(|flags| flags.contains(OFlags::WRONLY)) {
        // Another one of this process's: it stays open.
        let _ = pipe.into_raw_fd();
        return None;
    }
    // This process's children have no part in it.
    rustix::io::fcntl_setfd(&pipe, rustix::io::FdFlags::CLOEXEC).ok()?;
    Some(pipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saves_are_told_once() -> io::Result<()> {
        let mut saves = Saves::new()?;
        assert!(!saves.any());
        let mut nodes = File::from(saves.writer.try_clone()?);
        // More than the pipe holds: node 0 does not wait.
        for _ in 0..100_000 {
            let _ = nodes.write(&[1]);
        }
        assert!(saves.any());
        assert!(!saves.any());
        Ok(())
    }
}
