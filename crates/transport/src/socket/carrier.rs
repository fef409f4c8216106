//! The connection that a link reads from and writes to: of any kind, in the runtime that uses it.

use super::rdma::Rdma;
use super::rings::Rings;
use super::secure::Secure;
use super::spare::Spare;
use super::unix_stream::Unix;
use bytes::BytesMut;
use rustix::net::{Shutdown, shutdown};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;

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

    /// Notes the peer's goodbye: nothing is read from now on.
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

    /// Bytes that a write has taken and that may not have reached the socket.
    pub(crate) fn unsent(&self) -> usize {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Rings(_) => 0,
            Self::Tls(secure) => secure.unsent(),
            Self::Rdma(rdma) => rdma.unsent(),
        }
    }

    /// Writes the bytes that earlier writes took and did not pass on. Without a context, it does not wait.
    pub(crate) fn poll_flush(&mut self, cx: Option<&mut Context<'_>>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Rings(_) => Poll::Ready(Ok(())),
            Self::Tls(secure) => secure.poll_flush(cx),
            Self::Rdma(rdma) => rdma.poll_flush(cx),
        }
    }

    /// Notes that everything is written for now.
    pub(crate) fn rest(&mut self) {
        match self {
            Self::Tcp(_) | Self::Tls(_) | Self::Rings(_) | Self::Rdma(_) => {}
            Self::Unix(unix) => unix.rest(),
        }
    }

    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(secure) => secure.poll_shutdown(cx),
            Self::Unix(unix) => Poll::Ready(Ok(shutdown(unix, Shutdown::Write)?)),
            // Nothing is written after the goodbye, and the socket still carries doorbells.
            Self::Rings(_) => Poll::Ready(Ok(())),
            Self::Rdma(rdma) => rdma.poll_shutdown(cx),
        }
    }
}
