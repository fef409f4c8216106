//! The connection between a node and the coordinator, with TLS or without, and how a node makes one.
//!
//! TLS is that of the data plane ([`intendant_transport::tls`]), below gRPC, which does not know of it. So
//! both planes verify the same, errors stay typed, and a node learns that it is refused before it sends a
//! message.

use hyper_util::rt::TokioIo;
use intendant_transport::tls::{Admitted, TlsStream, is_tls_answer};
use intendant_transport::{Tls, TlsError};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};

/// Time for one attempt to connect, and for the handshake of TLS after it.
const CONNECT: Duration = Duration::from_secs(3);

/// A connection.
#[derive(Debug)]
pub(super) enum Wire {
    /// TCP.
    Plain(TcpStream),
    /// TLS over TCP.
    Tls(TlsStream),
}

impl From<Admitted> for Wire {
    fn from(admitted: Admitted) -> Self {
        match admitted {
            Admitted::Plain(stream) => Self::Plain(stream),
            Admitted::Tls(stream) => Self::Tls(stream),
        }
    }
}

/// The same expression for a connection of either kind.
macro_rules! either {
    ($wire:expr, $inner:ident => $result:expr) => {
        match $wire {
            Wire::Plain($inner) => $result,
            Wire::Tls($inner) => $result,
        }
    };
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        either!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}

/// A connection to a coordinator, for requests.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) channel: Channel,
    answer: Arc<Answer>,
}

impl Dialled {
    /// Whether this node does not use TLS, and what answered does.
    pub(super) fn needs_tls(&self) -> bool {
        // Relaxed: the answer that set it has arrived through the channel.
        self.answer.tls.load(Ordering::Relaxed)
    }
}

/// What is known about the first byte that arrived on a connection without TLS.
#[derive(Debug, Default)]
struct Answer {
    tls: AtomicBool,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// Nothing answers, or the connection broke.
    #[error("{0}")]
    Io(io::Error),
    /// The other side and this node do not agree on TLS; another attempt would fail alike.
    #[error("{0}")]
    Tls(TlsError),
}

/// Connects to `address`.
pub(super) async fn dial(address: SocketAddr, tls: Option<&Tls>) -> Result<Dialled, DialError> {
    let late = |what: &str| DialError::Io(io::Error::new(io::ErrorKind::TimedOut, what.to_owned()));
    let stream = timeout(CONNECT, TcpStream::connect(address))
        .await
        .map_err(|_| late("no answer"))?
        .map_err(DialError::Io)?;
    stream.set_nodelay(true).map_err(DialError::Io)?;
    let answer = Arc::new(Answer::default());
    let wire = match tls {
        None => Wire::Plain(stream),
        Some(tls) => match timeout(CONNECT, tls.connect(stream)).await {
            Ok(Ok(stream)) => Wire::Tls(stream),
            Ok(Err(TlsError::Io(error))) => return Err(DialError::Io(error)),
            Ok(Err(error)) => return Err(DialError::Tls(error)),
            Err(_) => return Err(late("something accepts connections there, but does not answer")),
        },
    };
    let sniffed = Sniffed { wire, answer: Some(Arc::clone(&answer)) };
    // A channel connects again once its connection has ended. This one must not: a node has one connection.
    let mut once = Some(sniffed);
    let connector = tower::service_fn(move |_| {
        let wire = once.take().map(TokioIo::new);
        async move { wire.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)) }
    });
    // An address is always a valid authority.
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(io::Error::other);
    let connected = endpoint.map_err(DialError::Io)?.connect_with_connector(connector).await;
    let channel = connected.map_err(|error| DialError::Io(io::Error::other(error)))?;
    Ok(Dialled { channel, answer })
}

/// A connection that looks at the first byte that arrives.
struct Sniffed {
    wire: Wire,
    answer: Option<Arc<Answer>>,
}

impl AsyncRead for Sniffed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.wire).poll_read(cx, buffer))?;
        if let Some(answer) = self.answer.take()
            && matches!(self.wire, Wire::Plain(_))
            && buffer.filled().get(before).copied().is_some_and(is_tls_answer)
        {
            answer.tls.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Sniffed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }
}
