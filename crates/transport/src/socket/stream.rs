//! One connection to a peer, of any kind, until its handshake is over.

use super::address::Address;
use super::carrier::Carrier;
use super::rdma::{self, Rdma};
use super::rings::{Rings, Shared};
use super::secure::Secure;
use super::unix;
use super::unix_stream::Unix;
use crate::HandshakeError;
use crate::tls::{Tls, TlsStream};
use rustix::net::sockopt;
use rustls::Connection;
use std::io;
use std::net;
use std::os::unix::net as std_unix;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A peer is lost if its machine has not acknowledged data for this long, or does not answer at all. Without
/// this limit the operating system would retry for a quarter of an hour, or would never notice if nothing is
/// in flight. It is longer than the silence of 5 s after which the control plane names the lost node; both
/// limits stay below 10 s.
const UNANSWERED: Duration = Duration::from_secs(7);
/// How long a connection may be silent before the operating system probes the peer's machine, and the time
/// between probes.
const PROBE_AFTER: Duration = Duration::from_secs(3);
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(TlsStream),
    /// To a node of the same host. The kernel ends it when the peer's process ends: there is no network that
    /// could fail.
    Unix(UnixStream),
    /// A Unix socket whose bytes will go through rings, once the handshake is over.
    Rings(UnixStream, Shared),
    /// TCP, whose bytes will go through a network card.
    Rdma(TcpStream, Box<rdma::Connection>),
}

/// What the bytes of a connection will go through instead of its socket.
#[derive(Debug)]
pub(crate) enum Extra {
    None,
    Rings(Shared),
    Rdma(Box<rdma::Connection>),
}

/// A connection that no runtime knows, on its way to the thread that will use it.
#[derive(Debug)]
pub(crate) enum Parked {
    Tcp(net::TcpStream),
    Tls(net::TcpStream, Box<Connection>),
    Unix(std_unix::UnixStream),
    Rings(std_unix::UnixStream, Shared),
    Rdma(net::TcpStream, Box<rdma::Connection>),
}

/// Evaluates the same expression for a connection of any kind.
macro_rules! either {
    ($stream:expr, $inner:ident => $result:expr) => {
        match $stream {
            Stream::Tcp($inner) | Stream::Rdma($inner, _) => $result,
            Stream::Tls($inner) => $result,
            Stream::Unix($inner) | Stream::Rings($inner, _) => $result,
        }
    };
}

impl Stream {
    /// Connects to a node: over its Unix socket if `local` permits and the node is on this host, else over
    /// TCP, with TLS if `tls` is given.
    pub(crate) async fn connect(
        address: &Address,
        local: bool,
        tls: Option<&Tls>,
    ) -> Result<Self, HandshakeError> {
        if let Some(name) = address.unix.filter(|_| local) {
            match unix::connect(name).await {
                Ok(stream) => return Ok(Self::Unix(stream)),
                // Usually the node is on another host, and this host does not know the name.
                Err(error) => tracing::debug!("{} is dialled over TCP: {error}", address.tcp),
            }
        }
        let stream = TcpStream::connect(address.tcp).await?;
        match tls {
            Some(tls) => Ok(Self::Tls(tls.connect(stream).await?)),
            None => Ok(Self::Tcp(stream)),
        }
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_) | Self::Rings(..))
    }

    /// Lets the bytes go through `extra` from now on, if it fits this kind of socket.
    pub(crate) fn with(self, extra: Extra) -> Self {
        match (self, extra) {
            (Self::Unix(stream), Extra::Rings(mut shared)) => {
                shared.peer = stream.peer_cred().ok().and_then(|credentials| credentials.pid());
                Self::Rings(stream, shared)
            }
            (Self::Tcp(stream), Extra::Rdma(connection)) => Self::Rdma(stream, connection),
            (other, _) => other,
        }
    }

    /// Sets the options that every connection needs: small frames leave at once, and a broken network is
    /// noticed.
    pub(crate) fn tune(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) | Self::Rdma(stream, _) => tune_tcp(stream),
            Self::Tls(stream) => tune_tcp(stream.tcp()),
            Self::Unix(stream) | Self::Rings(stream, _) => unix::tune(stream),
        }
    }

    pub(crate) fn park(self) -> io::Result<Parked> {
        Ok(match self {
            Self::Tcp(stream) => Parked::Tcp(stream.into_std()?),
            Self::Tls(stream) => {
                let (stream, session) = stream.into_parts();
                Parked::Tls(stream.into_std()?, Box::new(session))
            }
            Self::Unix(stream) => Parked::Unix(stream.into_std()?),
            Self::Rings(stream, shared) => Parked::Rings(stream.into_std()?, shared),
            Self::Rdma(stream, connection) => Parked::Rdma(stream.into_std()?, connection),
        })
    }
}

impl Parked {
    /// Registers the connection with the runtime that this is called in.
    pub(crate) fn resume(self) -> io::Result<Carrier> {
        Ok(match self {
            Self::Tcp(stream) => Carrier::Tcp(TcpStream::from_std(stream)?),
            Self::Tls(stream, session) => {
                Carrier::Tls(Box::new(Secure::new(TcpStream::from_std(stream)?, session)?))
            }
            Self::Unix(stream) => Carrier::Unix(Unix::new(stream)?),
            Self::Rings(stream, shared) => Carrier::Rings(Box::new(Rings::new(stream, shared)?)),
            Self::Rdma(stream, connection) => Carrier::Rdma(Box::new(Rdma::new(stream, connection)?)),
        })
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    pub(crate) fn has_rings(&self) -> bool {
        matches!(self, Self::Rings(..))
    }

    pub(crate) fn is_rdma(&self) -> bool {
        matches!(self, Self::Rdma(..))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}

fn tune_tcp(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    #[cfg(target_os = "linux")]
    {
        sockopt::set_tcp_keepidle(stream, PROBE_AFTER)?;
        sockopt::set_tcp_keepintvl(stream, PROBE_EVERY)?;
        sockopt::set_tcp_keepcnt(
            stream,
            ((UNANSWERED - PROBE_AFTER).as_secs() / PROBE_EVERY.as_secs()) as u32,
        )?;
        sockopt::set_tcp_user_timeout(stream, UNANSWERED.as_millis() as u32)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without these options, frames would wait for acknowledgements, and a broken network would be noticed
    /// only after minutes.
    #[tokio::test]
    async fn small_frames_leave_at_once_and_a_cut_is_noticed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        assert!(!stream.nodelay().expect("a socket"));
        tune_tcp(&stream).expect("a socket");
        assert!(stream.nodelay().expect("a socket"));
        assert_eq!(sockopt::socket_keepalive(&stream), Ok(true));
        #[cfg(target_os = "linux")]
        {
            let (after, every) =
                (sockopt::tcp_keepidle(&stream).unwrap(), sockopt::tcp_keepintvl(&stream).unwrap());
            let probes = sockopt::tcp_keepcnt(&stream).unwrap();
            assert_eq!(after + every * probes, UNANSWERED);
            assert_eq!(sockopt::tcp_user_timeout(&stream), Ok(UNANSWERED.as_millis() as u32));
        }
    }
}
