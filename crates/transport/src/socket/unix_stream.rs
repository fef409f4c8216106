//! A Unix socket in the runtime that uses it.
//!
//! When the peer reads, the kernel notifies everyone who waits for the socket to become writable, whether or
//! not it was full; a TCP socket notifies only after it has refused a write. A runtime that always waits for
//! both directions is thus woken once more for each frame that it has sent, and the advantage over TCP is
//! lost. So the socket is registered for reading only, and for writing only after it has refused a write.

use rustix::io::{Errno, writev};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net as std_unix;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;

/// A Unix socket.
#[derive(Debug)]
pub(crate) struct Unix {
    /// The runtime registers the reading end of a pipe for reading only. It uses no operation of the
    /// descriptor that a socket does not have.
    pub(super) stream: pipe::Receiver,
    /// A second descriptor of the socket, registered for writing only, from a write that was refused until
    /// everything is written.
    full: Option<pipe::Sender>,
}

impl AsFd for Unix {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Unix {
    /// Registers the socket, which must be nonblocking, with the runtime that this is called in.
    pub(crate) fn new(stream: std_unix::UnixStream) -> io::Result<Self> {
        Ok(Self { stream: pipe::Receiver::from_owned_fd_unchecked(stream.into())?, full: None })
    }

    /// Reads into `bytes`; a result of 0 is the end of the stream.
    pub(crate) fn poll_take(&mut self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(bytes);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    pub(super) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(writev(&self.stream, slices)?)
    }

    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let full = match &mut self.full {
            Some(full) => full,
            none => match writev(&self.stream, slices) {
                Err(Errno::AGAIN) => {
                    let second = self.stream.as_fd().try_clone_to_owned()?;
                    none.insert(pipe::Sender::from_owned_fd_unchecked(second)?)
                }
                done => return Poll::Ready(Ok(done?)),
            },
        };
        Pin::new(full).poll_write_vectored(cx, slices)
    }

    /// Ends the registration for writing: everything is written for now.
    pub(super) fn rest(&mut self) {
        self.full = None;
    }
}
