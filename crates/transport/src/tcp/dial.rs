//! Connecting to the nodes of higher rank.

use super::accept::{HANDSHAKE_DEADLINE, read_all};
use super::hello::{Hello, Identity, MAGIC, VERDICT_BYTES, decode_verdict};
use crate::HandshakeError;
use intendant_core::lock;
use intendant_core::{ChannelId, NodeId};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Pause after the first failed attempt; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// Longest pause between attempts: a peer that is late is noticed half a second after it is there.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// What is known about a peer that could not be reached yet.
pub(crate) type Trouble = Arc<Mutex<Option<String>>>;

/// Connects to a channel of a peer. It tries until it succeeds or is refused for good; the caller sets the
/// deadline.
pub(crate) async fn reach(
    identity: Arc<Identity>,
    to: NodeId,
    channel: ChannelId,
    address: SocketAddr,
    attempts: Arc<Semaphore>,
    trouble: Trouble,
) -> Result<TcpStream, HandshakeError> {
    let mut pause = PAUSE_MIN;
    loop {
        // The semaphore is never closed; without a permit the attempt would only be one too many.
        let permit = attempts.acquire().await;
        let attempt = timeout(HANDSHAKE_DEADLINE, introduce(&identity, to, channel, address)).await;
        drop(permit);
        match attempt.unwrap_or(Err(HandshakeError::Timeout)) {
            Ok(stream) => return Ok(stream),
            // The peer may not be there yet, or is too busy to answer.
            Err(
                error @ (HandshakeError::Io(_)
                | HandshakeError::Closed
                | HandshakeError::Timeout
                | HandshakeError::Busy { .. }),
            ) => {
                tracing::debug!("node {to} at {address} cannot be reached yet: {error}");
                *lock(&trouble) = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
        sleep(pause).await;
        pause = PAUSE_MAX.min(2 * pause);
    }
}

/// One attempt.
async fn introduce(
    identity: &Identity,
    to: NodeId,
    channel: ChannelId,
    address: SocketAddr,
) -> Result<TcpStream, HandshakeError> {
    let mut stream = TcpStream::connect(address).await?;
    super::link::tune(&stream)?;
    let hello = Hello::new(identity, to, channel);
    stream.write_all(&hello.encode()).await?;
    let mut verdict = [0; VERDICT_BYTES];
    read_all(&mut stream, &mut verdict).await?;
    decode_verdict(identity, &hello, &verdict)?;
    stream.write_all(&MAGIC).await?;
    Ok(stream)
}
