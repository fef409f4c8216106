//! What a link reads from and writes to: a connection of any kind, in the runtime that uses it.
//!
//! A Unix socket needs care. When its peer reads, the kernel notifies all that wait for the socket to become
//! writable, whether or not it was full; a TCP socket notifies after a write that was refused. A runtime that
//! waits for both directions all the time is thus woken once more for each frame that it has sent, and the
//! advantage over TCP is lost. So a Unix socket is registered for reading only, and for writing as long as a
//! write is refused.

use super::rdma::Rdma;
use super::rings::Rings;
use super::secure::Secure;
use super::spare::Spare;
use bytes::BytesMut;
use rustix::io::{Errno, writev};
use rustix::net::{Shutdown, shutdown};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net as std_unix;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::unix::pipe;

/// A connection.
#[derive(Debug)]
pub(crate) enum Carrier {
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<Secure>),
    Unix(Unix),
    /// Rings beside a Unix socket.
    Rings(Box<Rings>),
    /// A network card, beside TCP.
    Rdma(Box<Rdma>),
}

impl Carrier {
    /// Whether the peer is on this host.
    pub(crate) fn is_on_this_host(&self) -> bool {
        matches!(self, Self::Unix(_) | Self::Rings(_))
    }

    /// The rings, if the connection has some.
    pub(crate) fn rings(&mut self) -> Option<&mut Rings> {
        match self {
            Self::Rings(rings) => Some(rings),
            Self::Tcp(_) | Self::Tls(_) | Self::Unix(_) | Self::Rdma(_) => None,
        }
    }

    /// Nothing is read from now on.
    pub(crate) fn say_farewell(&mut self) {
        match self {
            Self::Rings(rings) => rings.say_farewell(),
            Self::Rdma(rdma) => rdma.say_farewell(),
            Self::Tcp(_) | Self::Tls(_) | Self::Unix(_) => {}
        }
    }

    pub(crate) fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Tls(secure) => secure.poll_read_ready(cx),
            Self::Unix(unix) => unix.stream.poll_read_ready(cx),
            Self::Rings(rings) => rings.poll_read_ready(cx),
            Self::Rdma(rdma) => rdma.poll_read_ready(cx),
        }
    }

    /// Appends what one read brings.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        room: &mut BytesMut,
        spare: &mut Spare,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => pin!(stream.read_buf(room)).poll(cx),
            Self::Tls(secure) => secure.poll_read(cx, room, spare.cipher()),
            Self::Unix(unix) => pin!(unix.stream.read_buf(room)).poll(cx),
            Self::Rings(rings) => rings.poll_read(cx, room),
            Self::Rdma(rdma) => rdma.poll_read(cx, room),
        }
    }

    pub(crate) fn try_write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write_vectored(slices),
            Self::Tls(secure) => secure.try_write(slices),
            Self::Unix(unix) => unix.try_write(slices),
            Self::Rings(rings) => rings.try_write(slices),
            Self::Rdma(rdma) => rdma.try_write(slices),
        }
    }

    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(secure) => secure.poll_write(cx, slices),
            Self::Unix(unix) => unix.poll_write(cx, slices),
            Self::Rings(rings) => rings.poll_write(cx, slices),
            Self::Rdma(rdma) => rdma.poll_write(cx, slices),
        }
    }

    /// Bytes that a write took and that may not have reached the socket.
    pub(crate) fn unsent(&self) -> usize {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Rings(_) => 0,
            Self::Tls(secure) => secure.unsent(),
            Self::Rdma(rdma) => rdma.unsent(),
        }
    }

    /// Writes what earlier writes took and did not pass on. Without a context it tries only.
    pub(crate) fn poll_flush(&mut self, cx: Option<&mut Context<'_>>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Rings(_) => Poll::Ready(Ok(())),
            Self::Tls(secure) => secure.poll_flush(cx),
            Self::Rdma(rdma) => rdma.poll_flush(cx),
        }
    }

    /// Everything is written for now.
    pub(crate) fn rest(&mut self) {
        match self {
            Self::Tcp(_) | Self::Tls(_) | Self::Rings(_) | Self::Rdma(_) => {}
            Self::Unix(unix) => unix.full = None,
        }
    }

    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(secure) => secure.poll_shutdown(cx),
            Self::Unix(unix) => Poll::Ready(Ok(shutdown(&unix.stream, Shutdown::Write)?)),
            // The goodbye is the last that is written. The socket still carries doorbells.
            Self::Rings(_) => Poll::Ready(Ok(())),
            Self::Rdma(rdma) => rdma.poll_shutdown(cx),
        }
    }
}

/// A Unix socket.
#[derive(Debug)]
pub(crate) struct Unix {
    /// The runtime registers the reading end of a pipe for reading only. It asks nothing of the descriptor
    /// that a socket does not have.
    stream: pipe::Receiver,
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
    /// The socket, which is nonblocking, in the runtime that this is called in.
    pub(crate) fn new(stream: std_unix::UnixStream) -> io::Result<Self> {
        Ok(Self { stream: pipe::Receiver::from_owned_fd_unchecked(stream.into())?, full: None })
    }

    /// Reads into `bytes`; 0 is the end.
    pub(crate) fn poll_take(&mut self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(bytes);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(writev(&self.stream, slices)?)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
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
}
