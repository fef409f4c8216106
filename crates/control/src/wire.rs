//! The connection between a node and the coordinator, with TLS or without, and how a node makes one.
//!
//! TLS is that of the data plane ([`intendant_transport::tls`]). It is below gRPC, which does not know of it.
//! So both planes verify certificates in the same way, errors stay typed, and a node learns that it is
//! refused before it sends a message.

use hyper_util::rt::TokioIo;
use intendant_transport::tls::is_tls_answer;
use intendant_transport::{Tls, TlsError};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::either::Either;
use tokio_util::io::InspectReader;
use tonic::transport::{Channel, Endpoint};

/// Time for one attempt to connect, and for the handshake of TLS after it.
const CONNECT: Duration = Duration::from_secs(3);

/// A connection to a coordinator, for requests.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) channel: Channel,
    answer: Arc<Answer>,
}

impl Dialled {
    /// Whether this node does not use TLS and the other side does.
    pub(super) fn needs_tls(&self) -> bool {
        // A relaxed load is enough, because the answer that set the flag has arrived through the channel.
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
    /// No answer came, or the connection broke.
    #[error("{0}")]
    Io(io::Error),
    /// The other side and this node do not agree on TLS; another attempt would fail in the same way.
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
        None => Either::Left(sniffed(stream, Arc::clone(&answer))),
        Some(tls) => match timeout(CONNECT, tls.connect(stream)).await {
            Ok(Ok(stream)) => Either::Right(stream),
            Ok(Err(TlsError::Io(error))) => return Err(DialError::Io(error)),
            Ok(Err(error)) => return Err(DialError::Tls(error)),
            Err(_) => return Err(late("something accepts connections there, but does not answer")),
        },
    };
    // A gRPC channel connects again once its connection has ended. This one must not, because a node has one
    // connection.
    let mut once = Some(wire);
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

/// A connection that notes the kind of the first byte that arrives.
fn sniffed(stream: TcpStream, answer: Arc<Answer>) -> InspectReader<TcpStream, impl FnMut(&[u8])> {
    let mut is_first = true;
    InspectReader::new(stream, move |bytes: &[u8]| {
        if let Some(first) = bytes.first().filter(|_| std::mem::take(&mut is_first)) {
            answer.tls.store(is_tls_answer(*first), Ordering::Relaxed);
        }
    })
}
