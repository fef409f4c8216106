//! Messages of nodes to their launcher, through a pipe: they have saved their state since the launcher
//! started them, their run wants another process, or their run has come to its end.
//!
//! The launcher does not know what nodes save, or where, so the message about saved state has no content.

use crate::variable;
use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::OnceLock;

/// A message: its kind, and a port. Nodes write it in one piece, so that messages of different nodes do not
/// mix.
type Message = [u8; 3];

/// The state is saved.
const SAVED: u8 = 1;
/// Another process is to join the run, at the port on this machine.
const MORE: u8 = 2;
/// The run has come to its end, and its results are written.
const DONE: u8 = 3;

/// The launcher's end, and its copy of the nodes' end.
pub(super) struct Saves {
    reader: File,
    writer: OwnedFd,
    has_saved: bool,
    is_done: bool,
    /// Ports at which further processes are to join.
    wanted: Vec<u16>,
    /// The beginning of an incomplete message.
    rest: Vec<u8>,
}

impl Saves {
    pub(super) fn new() -> io::Result<Self> {
        // Neither end waits: the launcher does not wait for nodes, and node 0 does not wait if the pipe is
        // full.
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let reader = reader.into();
        Ok(Self { reader, writer, has_saved: false, is_done: false, wanted: Vec::new(), rest: Vec::new() })
    }

    /// The nodes' end.
    pub(super) fn raw(&self) -> RawFd {
        self.writer.as_raw_fd()
    }

    /// Whether nodes have saved their state since the last call.
    pub(super) fn any(&mut self) -> bool {
        self.read();
        std::mem::take(&mut self.has_saved)
    }

    /// The ports at which further processes are to join the run; only those that nodes asked for since the
    /// last call.
    pub(super) fn wanted(&mut self) -> Vec<u16> {
        self.read();
        std::mem::take(&mut self.wanted)
    }

    /// Whether nodes have reported that the run has come to its end.
    pub(super) fn is_done(&mut self) -> bool {
        self.read();
        self.is_done
    }

    fn read(&mut self) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = self.reader.read(&mut bytes) {
            self.rest.extend_from_slice(&bytes[..count]);
        }
        let (messages, rest) = self.rest.as_chunks::<{ size_of::<Message>() }>();
        for [what, low, high] in messages {
            match *what {
                MORE => self.wanted.push(u16::from_le_bytes([*low, *high])),
                DONE => self.is_done = true,
                _ => self.has_saved = true,
            }
        }
        self.rest = rest.to_vec();
    }
}

/// Tells the launcher, if [`super::Launch`] started this process, that the nodes have saved their state: if
/// they must be started again, they do not lose their work so far. Otherwise the call has no effect.
pub fn tell_saved() {
    // A full pipe has such messages already; without a launcher there will be no restart.
    let _ = tell([SAVED, 0, 0]);
}

/// Tells the launcher, if [`super::Launch`] started this process, that the run has come to its end, and that
/// its results are written. A run that has lost nodes ends well only then.
pub fn tell_done() {
    let _ = tell([DONE, 0, 0]);
}

/// Asks the launcher to start another process, which is to join the run at this port of this machine; it has
/// `INTENDANT_JOIN` in its environment. `false` if no launcher of ours started this process.
pub fn ask_for_another(port: u16) -> bool {
    let [low, high] = port.to_le_bytes();
    tell([MORE, low, high])
}

fn tell(message: Message) -> bool {
    static PIPE: OnceLock<Option<File>> = OnceLock::new();
    PIPE.get_or_init(inherited).as_ref().is_some_and(|mut pipe| pipe.write(&message).is_ok())
}

/// The pipe that this process inherited. A descriptor that is no pipe is left alone.
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
        // This is another descriptor of this process: it stays open.
        let _ = pipe.into_raw_fd();
        return None;
    }
    // This process's children do not inherit the pipe.
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
        // These are more messages than the pipe holds: node 0 does not wait.
        for _ in 0..100_000 {
            let _ = nodes.write(&[SAVED, 0, 0]);
        }
        assert!(saves.any());
        assert!(!saves.any());
        assert!(saves.wanted().is_empty());
        nodes.write_all(&[MORE, 0x34, 0x12, SAVED, 0, 0, MORE])?;
        assert_eq!(saves.wanted(), [0x1234]);
        nodes.write_all(&[1, 0])?;
        assert!(saves.any());
        assert_eq!(saves.wanted(), [1]);
        assert!(!saves.is_done());
        nodes.write_all(&[DONE, 0, 0])?;
        assert!(saves.is_done() && !saves.any());
        Ok(())
    }
}
