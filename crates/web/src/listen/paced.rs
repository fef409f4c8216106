//! A stream whose peer must read.

use super::guests::Guest;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// The interval after which the stream checks how much the peer has taken.
const WITHIN: Duration = Duration::from_secs(30);

/// Bytes that the peer must take within that time, if this many wait: 2 kB per second.
const BYTES_MIN: usize = 64 << 10;

/// A stream that ends with an error if the bytes to be sent wait too long. So a peer that does not read
/// cannot keep its place, and the answers that wait for it, forever.
#[derive(Debug)]
pub(super) struct Paced<S> {
    stream: S,
    /// The connection, which records when bytes are read and written.
    guest: Arc<Guest>,
    timer: Pin<Box<Sleep>>,
    /// Bytes that were sent since the current interval began; `None` if nothing waits.
    sent: Option<usize>,
}

impl<S> Paced<S> {
    pub(super) fn new(stream: S, guest: Arc<Guest>) -> Self {
        Self { stream, guest, timer: Box::pin(tokio::time::sleep(WITHIN)), sent: None }
    }

    /// The outcome of a write: an error if it has been waiting for too long.
    fn pace(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            self.guest.hear();
            if let (Some(sent), Ok(written)) = (&mut self.sent, &written) {
                *sent = sent.saturating_add(*written);
            }
            return Poll::Ready(written);
        }
        if self.sent.is_none() {
            self.wait();
        }
        ready!(self.timer.as_mut().poll(cx));
        if self.sent.is_some_and(|sent| sent < BYTES_MIN) {
            let reason = "the peer does not read what it has asked for";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, reason)));
        }
        self.wait();
        // This poll makes the timer wake the task at the end of the next interval.
        self.timer.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn wait(&mut self) {
        self.guest.sends(true);
        self.sent = Some(0);
        self.timer.as_mut().reset(Instant::now() + WITHIN);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.guest.hear();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.pace(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, buffers);
        self.pace(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The server flushes when all is written: nothing waits any more.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sent = None;
        self.guest.sends(false);
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
