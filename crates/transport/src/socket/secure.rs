//! A TLS connection in use: encrypts what a link writes, and decrypts what it reads.
//!
//! The handshake is over ([`crate::tls`]). The session holds the bytes that are encrypted and not written
//! yet; they count as unsent until the session has nothing to write.

use super::outgoing::SLICES_MAX;
use bytes::BytesMut;
use rustls::Connection;
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The most bytes that are encrypted before they are written: four full records. With fewer, a system call
/// would write few bytes; with more, the bytes would leave the cache before they are written.
const ENCRYPTED_AT_ONCE_BYTES: usize = 64 << 10;

/// The most encrypted bytes that one read may bring.
pub(crate) const CIPHER_BYTES: usize = 64 << 10;

/// The most bytes that a record holds. The session holds the bytes of an incomplete record.
const RECORD_BYTES: usize = 16 << 10;

/// A TLS connection.
#[derive(Debug)]
pub(crate) struct Secure {
    stream: TcpStream,
    session: Box<Connection>,
    /// The session holds decrypted bytes.
    readable: bool,
    /// Bytes that were encrypted since the session had nothing to write.
    unsent: usize,
    closed: bool,
}

/// The socket, as the session writes to it.
struct Socket<'a>(&'a TcpStream);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn broken(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Secure {
    /// Wraps the connection after its handshake, in the runtime that this is called in.
    pub(crate) fn new(stream: TcpStream, mut session: Box<Connection>) -> io::Result<Self> {
        // This module itself bounds what is encrypted at once.
        session.set_buffer_limit(None);
        // The peer may have sent its first frames with the last bytes of the handshake.
        let readable = session.process_new_packets().map_err(broken)?.plaintext_bytes_to_read() > 0;
        Ok(Self { stream, session, readable, unsent: 0, closed: false })
    }

    /// Bytes of the link that this connection has taken and may not have written yet.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent
    }

    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.readable { Poll::Ready(Ok(())) } else { self.stream.poll_read_ready(cx) }
    }

    /// Appends what one read brings; a result of 0 bytes is the end of the stream. `cipher` is memory for the
    /// encrypted bytes.
    ///
    /// An end without TLS's own close notification counts as an end as well: links have a goodbye, which is
    /// encrypted.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        room: &mut BytesMut,
        cipher: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let before = room.len();
        if self.readable {
            self.drain(room)?;
            self.readable = false;
        }
        while room.len() == before {
            // The plaintext should fit into the room, together with that of the incomplete record in the
            // session.
            let free = (room.capacity() - room.len()).saturating_sub(RECORD_BYTES);
            let most = free.clamp(RECORD_BYTES / 2, cipher.len());
            let mut buffer = ReadBuf::new(&mut cipher[..most]);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            if buffer.filled().is_empty() || !self.decrypt(buffer.filled(), room)? {
                break;
            }
        }
        Poll::Ready(Ok(room.len() - before))
    }

    /// Decrypts, and appends the plaintext. Returns whether there may be more, which is false after the
    /// peer's last record.
    fn decrypt(&mut self, mut cipher: &[u8], room: &mut BytesMut) -> io::Result<bool> {
        while !cipher.is_empty() {
            if self.session.read_tls(&mut cipher as &mut dyn Read)? == 0 {
                return Ok(false);
            }
            if self.session.process_new_packets().map_err(broken)?.plaintext_bytes_to_read() > 0 {
                self.drain(room)?;
            }
        }
        if self.session.wants_write() {
            // The session answers a message of TLS itself. If the socket does not take the answer, the next
            // write takes it along.
            self.flush()?;
        }
        Ok(true)
    }

    fn drain(&mut self, room: &mut BytesMut) -> io::Result<()> {
        let mut reader = self.session.reader();
        loop {
            let plain = match reader.fill_buf() {
                Ok(plain) => plain,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            if plain.is_empty() {
                return Ok(());
            }
            room.extend_from_slice(plain);
            let bytes = plain.len();
            reader.consume(bytes);
        }
    }

    /// Writes encrypted bytes; returns whether the socket took all of them.
    fn flush(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Socket(&self.stream)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.unsent = 0;
        Ok(true)
    }

    /// Takes bytes of the link and writes as many as the socket takes. It takes nothing while earlier bytes
    /// wait.
    pub(crate) fn try_write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.flush()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (mut chosen, mut used, mut left) = ([IoSlice::new(&[]); SLICES_MAX], 0, ENCRYPTED_AT_ONCE_BYTES);
        for (to, slice) in chosen.iter_mut().zip(slices) {
            if left == 0 {
                break;
            }
            let bytes = slice.len().min(left);
            *to = IoSlice::new(&slice[..bytes]);
            left -= bytes;
            used += 1;
        }
        let taken = self.session.writer().write_vectored(&chosen[..used])?;
        self.unsent = taken;
        self.flush()?;
        Ok(taken)
    }

    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(Some(cx)))?;
        Poll::Ready(self.try_write(slices))
    }

    /// Writes encrypted bytes. Without a context, it does not wait.
    pub(crate) fn poll_flush(&mut self, mut cx: Option<&mut Context<'_>>) -> Poll<io::Result<()>> {
        loop {
            if self.flush()? {
                return Poll::Ready(Ok(()));
            }
            match cx.as_deref_mut() {
                Some(cx) => ready!(self.stream.poll_write_ready(cx))?,
                None => return Poll::Pending,
            }
        }
    }

    /// Ends the writing half, on both layers.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.closed {
            self.session.send_close_notify();
            self.closed = true;
        }
        ready!(self.poll_flush(Some(cx)))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
