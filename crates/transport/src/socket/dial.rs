//! Connecting to the nodes of higher rank.

use super::accept::{HANDSHAKE_DEADLINE, read_all};
use super::address::Address;
use super::hello::{Asks, Hello, Identity, MAGIC, MAGIC_RDMA, MAGIC_RINGS, VERDICT_BYTES, decode_verdict};
use super::rdma::{self, Plane};
use super::stream::{Extra, Stream};
use super::unix;
use crate::{HandshakeError, Tls};
use intendant_core::lock;
use intendant_core::{ChannelId, NodeId};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Pause after the first failed attempt; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// Longest pause between attempts: a late peer is noticed within half a second of its start.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The reason, as far as it is known, why a peer could not be reached yet.
pub(crate) type Trouble = Arc<Mutex<Option<String>>>;

/// How peers are dialled.
#[derive(Clone, Debug)]
pub(crate) struct Ways {
    /// Whether peers of this host are dialled over their Unix sockets.
    pub(crate) local: bool,
    /// Whether they are asked for rings.
    pub(crate) rings: bool,
    /// Over plain TCP, this node asks them for a connection over this card.
    pub(crate) rdma: Option<Arc<Plane>>,
    /// Encrypts connections over TCP.
    pub(crate) tls: Option<Tls>,
}

/// Connects to a channel of a peer, over its Unix socket if `ways` permit and both are on the same host, else
/// over TCP. It tries until it succeeds or is refused for good; the caller sets the deadline.
pub(crate) async fn reach(
    identity: Arc<Identity>,
    to: NodeId,
    channel: ChannelId,
    address: Address,
    ways: Ways,
    attempts: Arc<Semaphore>,
    trouble: Trouble,
) -> Result<Stream, HandshakeError> {
    let mut pause = PAUSE_MIN;
    // An attempt over the peer's Unix socket connected, but got no verdict.
    let mut fruitless = false;
    loop {
        // The semaphore is never closed; an attempt without a permit would only exceed the limit.
        let permit = attempts.acquire().await;
        let mut over_unix = false;
        let attempt = async {
            let mut stream = Stream::connect(&address, ways.local && !fruitless, ways.tls.as_ref()).await?;
            over_unix = stream.is_unix();
            let extra = introduce(&identity, to, channel, &mut stream, &ways).await?;
            Ok(stream.with(extra))
        };
        let attempt = timeout(HANDSHAKE_DEADLINE, attempt).await;
        drop(permit);
        match attempt.unwrap_or(Err(HandshakeError::Timeout)) {
            Ok(stream) => return Ok(stream),
            // The peer may not be there yet, or may be too busy to answer.
            Err(
                error @ (HandshakeError::Io(_)
                | HandshakeError::Closed
                | HandshakeError::Timeout
                | HandshakeError::Busy { .. }),
            ) => {
                tracing::debug!("node {to} at {} cannot be reached yet: {error}", address.tcp);
                fruitless = over_unix && !matches!(error, HandshakeError::Busy { .. });
                *lock(&trouble) = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
        sleep(pause).await;
        pause = PAUSE_MAX.min(2 * pause);
    }
}

/// The handshake of one attempt. Returns what the bytes will go through.
async fn introduce(
    identity: &Identity,
    to: NodeId,
    channel: ChannelId,
    stream: &mut Stream,
    ways: &Ways,
) -> Result<Extra, HandshakeError> {
    stream.tune()?;
    let asks = match &*stream {
        Stream::Unix(_) if ways.rings => Asks::Rings,
        Stream::Tcp(_) if ways.rdma.is_some() => Asks::Rdma,
        Stream::Unix(_) | Stream::Tcp(_) | Stream::Tls(_) => Asks::Nothing,
        Stream::Rings(..) | Stream::Rdma(..) => Asks::Nothing,
    };
    let hello = Hello::new(identity, to, channel, asks);
    stream.write_all(&hello.encode()).await?;
    let mut verdict = [0; VERDICT_BYTES];
    let mut shared = None;
    if let Stream::Unix(stream) = stream
        && asks == Asks::Rings
    {
        shared = unix::read_with_memory(stream, &mut verdict).await?;
    } else {
        read_all(stream, &mut verdict).await?;
    }
    decode_verdict(identity, &hello, &verdict)?;
    if let Some(plane) = ways.rdma.as_ref().filter(|_| asks == Asks::Rdma) {
        return connect(plane, to, channel, stream).await;
    }
    stream.write_all(if shared.is_some() { &MAGIC_RINGS } else { &MAGIC }).await?;
    stream.flush().await?;
    Ok(shared.map_or(Extra::None, Extra::Rings))
}

/// Connects over RDMA, if the peer makes an offer that this node can use.
async fn connect(
    plane: &Plane,
    to: NodeId,
    channel: ChannelId,
    stream: &mut Stream,
) -> Result<Extra, HandshakeError> {
    let mut offered = [0; rdma::OFFER_BYTES];
    read_all(stream, &mut offered).await?;
    let half = plane.begin(to, channel).map_err(|error| error.to_string());
    let connected = half.and_then(|half| Ok((half.offer(), half.connect(&offered)?)));
    let refused = match connected {
        Ok((own, connection)) => {
            stream.write_all(&[&MAGIC_RDMA[..], &own].concat()).await?;
            let mut last_word = [0; MAGIC.len()];
            read_all(stream, &mut last_word).await?;
            match last_word {
                MAGIC_RDMA => return Ok(Extra::Rdma(connection)),
                MAGIC => "the peer cannot connect".to_owned(),
                _ => return Err(HandshakeError::NotIntendant),
            }
        }
        Err(reason) => {
            stream.write_all(&MAGIC).await?;
            reason
        }
    };
    tracing::warn!("the connection to node {to} does not use RDMA: {refused}");
    Ok(Extra::None)
}
