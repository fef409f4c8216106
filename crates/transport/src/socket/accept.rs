//! The gate: accepts connections from other nodes, and refuses all others.
//!
//! Every connection is examined in a task of its own, so that one that is slow or silent does not delay
//! others. The gate stays open for the life of the mesh: a late process learns why it is refused, and links
//! in use are not affected.

use super::hello::{
    Asks, HELLO_BYTES, Hello, Identity, MAGIC, MAGIC_RDMA, MAGIC_RINGS, PREAMBLE_BYTES, check_hello,
    check_preamble, encode_verdict,
};
use super::rdma::{self, Plane};
use super::stream::{Extra, Stream};
use super::unix;
use crate::tls::{Tls, admit};
use crate::{HandshakeError, Throttle};
use intendant_core::lock;
use intendant_core::{ChannelId, NodeId, Tick};
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::either::Either;

/// Time from the connection to the confirmation. A healthy dialler needs two round trips.
pub(crate) const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(3);

/// The most connections that have not shown the token yet. Each costs a file descriptor and some hundred
/// bytes; further connections wait in the operating system's queue.
const UNKNOWN_MAX: usize = 128;

/// If there are more than this, new ones get [`CROWDED_DEADLINE`] for their hello, so that thousands of
/// silent connections cannot keep good ones out for long.
const CROWD: usize = UNKNOWN_MAX / 2;

/// Time for a hello when there are more than [`CROWD`] such connections.
const CROWDED_DEADLINE: Duration = Duration::from_millis(250);

/// Pause after an error of accept itself, usually a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Errors of accept that mean that the process or its system lacks a resource.
const EXHAUSTED: [i32; 4] = [
    Errno::MFILE.raw_os_error(),
    Errno::NFILE.raw_os_error(),
    Errno::NOBUFS.raw_os_error(),
    Errno::NOMEM.raw_os_error(),
];

/// A process that lacks such a resource for this long does not notice its diallers, and they cannot know
/// that.
const DEAF: Duration = Duration::from_secs(1);

/// Bytes that a refused dialler may still send before the connection is closed. Closing with bytes unread
/// resets the connection, and some operating systems then discard what the dialler has not read: the verdict.
const LEFTOVER_BYTES_MAX: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Free,
    /// A handshake is in progress.
    Reserved,
    Taken,
}

/// An accepted link.
pub(crate) type Arrival = (NodeId, ChannelId, Stream);

/// The sockets that connections come from.
#[derive(Debug)]
pub(crate) struct Doors {
    pub(crate) tcp: TcpListener,
    pub(crate) unix: Option<UnixListener>,
}

/// The dialler, for the log.
#[derive(Clone, Copy, Debug)]
enum Caller {
    Remote(SocketAddr),
    Local { process: Option<i32> },
}

/// State that all examinations share.
#[derive(Debug)]
pub(crate) struct Gate {
    identity: Identity,
    tls: Option<Tls>,
    /// By rank of the dialler, then channel.
    places: Mutex<Vec<Place>>,
    /// The capacity of rings for diallers that ask for them.
    rings: Option<usize>,
    /// The card, for diallers that ask for a connection over it.
    rdma: Option<Arc<Plane>>,
    arrivals: UnboundedSender<Arrival>,
    /// Every connection from outside can cause a line in the log.
    refusals: Mutex<Throttle>,
    failures: Mutex<Throttle>,
    /// Since when this process has lacked a resource for accepting connections, and the error number of the
    /// system.
    blocked: Mutex<Option<(Instant, i32)>>,
    opened: Instant,
}

/// A reserved place; it is freed unless the link is established.
struct Reservation<'a> {
    gate: &'a Gate,
    rank: NodeId,
    channel: ChannelId,
    kept: bool,
}

impl Doors {
    /// The next connection of either kind. Nothing is lost if the future is dropped.
    async fn accept(&self) -> io::Result<(Stream, Caller)> {
        let unix = async {
            match &self.unix {
                Some(unix) => unix.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = self.tcp.accept() => {
                let (stream, address) = accepted?;
                Ok((Stream::Tcp(stream), Caller::Remote(address)))
            }
            accepted = unix => {
                let (stream, _) = accepted?;
                let process = stream.peer_cred().ok().and_then(|credentials| credentials.pid());
                Ok((Stream::Unix(stream), Caller::Local { process }))
            }
        }
    }
}

impl std::fmt::Display for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Remote(address) => address.fmt(f),
            Self::Local { process: Some(process) } => write!(f, "process {process} of this host"),
            Self::Local { process: None } => f.write_str("a process of this host"),
        }
    }
}

impl Gate {
    pub(crate) fn new(
        identity: Identity,
        tls: Option<Tls>,
        (rings, rdma): (Option<usize>, Option<Arc<Plane>>),
        arrivals: UnboundedSender<Arrival>,
    ) -> Self {
        let places = vec![Place::Free; identity.rank.index() * usize::from(identity.channels)];
        Self {
            identity,
            tls,
            places: Mutex::new(places),
            rings,
            rdma,
            arrivals,
            refusals: Mutex::default(),
            failures: Mutex::default(),
            blocked: Mutex::default(),
            opened: Instant::now(),
        }
    }

    fn with_place<T>(&self, rank: NodeId, channel: ChannelId, use_it: impl FnOnce(&mut Place) -> T) -> T {
        let mut places = lock(&self.places);
        use_it(&mut places[rank.index() * usize::from(self.identity.channels) + channel.index()])
    }

    fn reserve(&self, rank: NodeId, channel: ChannelId) -> Result<Reservation<'_>, HandshakeError> {
        self.with_place(rank, channel, |place| match place {
            Place::Free => {
                *place = Place::Reserved;
                Ok(Reservation { gate: self, rank, channel, kept: false })
            }
            Place::Reserved => Err(HandshakeError::Busy { rank, channel }),
            Place::Taken => Err(HandshakeError::Duplicate { rank, channel }),
        })
    }

    /// Waits until this process has lacked a resource for accepting connections for the time [`DEAF`].
    /// Returns the system's error.
    pub(crate) async fn deaf(&self) -> io::Error {
        loop {
            let blocked = *lock(&self.blocked);
            if let Some((since, code)) = blocked
                && since.elapsed() >= DEAF
            {
                return io::Error::from_raw_os_error(code);
            }
            sleep(ACCEPT_PAUSE).await;
        }
    }

    /// Accepts connections forever.
    pub(crate) async fn run(self: Arc<Self>, doors: Doors) {
        let permits = Arc::new(Semaphore::new(UNKNOWN_MAX));
        let mut visits = JoinSet::new();
        loop {
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            match doors.accept().await {
                Ok((stream, caller)) => {
                    *lock(&self.blocked) = None;
                    let crowded = UNKNOWN_MAX - permits.available_permits() > CROWD;
                    let patience = if crowded { CROWDED_DEADLINE } else { HANDSHAKE_DEADLINE };
                    visits.spawn(self.clone().receive(stream, caller, permit, patience));
                }
                Err(error) => {
                    self.warn(
                        &self.failures,
                        format_args!("cannot accept connections at the moment: {error}"),
                    );
                    if let Some(code) = error.raw_os_error().filter(|code| EXHAUSTED.contains(code)) {
                        lock(&self.blocked).get_or_insert((Instant::now(), code));
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            }
            while visits.try_join_next().is_some() {}
        }
    }

    /// Examines one connection and answers it.
    async fn receive(
        self: Arc<Self>,
        stream: Stream,
        caller: Caller,
        permit: OwnedSemaphorePermit,
        patience: Duration,
    ) {
        let deadline = Instant::now() + HANDSHAKE_DEADLINE;
        let until = Instant::now() + patience;
        let mut stream = match timeout_at(until, self.admit(stream)).await {
            Ok(Ok(stream)) => stream,
            // The dialler already has its answer, if it gets one.
            Ok(Err(refusal)) => return self.note_refusal(caller, &refusal),
            Err(_) => return self.note_refusal(caller, &HandshakeError::Timeout),
        };
        let hello =
            match timeout_at(until, self.hear(&mut stream)).await.unwrap_or(Err(HandshakeError::Timeout)) {
                Ok(hello) => hello,
                Err(refusal) => return self.refuse(stream, caller, &refusal, patience).await,
            };
        let (rank, channel) = (hello.from, hello.channel);
        let reservation = match self.reserve(rank, channel) {
            Ok(reservation) => reservation,
            Err(refusal) => return self.refuse(stream, caller, &refusal, patience).await,
        };
        // A dialler that knows the token no longer counts as unknown.
        drop(permit);
        let welcomed = timeout_at(deadline, self.welcome(&mut stream, &hello)).await;
        match welcomed.unwrap_or(Err(HandshakeError::Timeout)) {
            Ok(extra) => {
                let stream = stream.with(extra);
                reservation.keep();
                // The receiver is dropped only when the mesh has failed or is dropped, and then this task is
                // dropped as well.
                let _ = self.arrivals.send((rank, channel, stream));
            }
            Err(error) => self.warn(
                &self.refusals,
                format_args!("node {rank} at {caller} did not finish its handshake: {error}"),
            ),
        }
    }

    /// Performs the TLS handshake of a connection over TCP, if this node uses TLS.
    async fn admit(&self, stream: Stream) -> Result<Stream, HandshakeError> {
        let Stream::Tcp(stream) = stream else { return Ok(stream) };
        Ok(match admit(stream, self.tls.as_ref()).await? {
            Either::Left(stream) => Stream::Tcp(stream),
            Either::Right(stream) => Stream::Tls(stream),
        })
    }

    fn note_refusal(&self, caller: Caller, refusal: &HandshakeError) {
        self.warn(&self.refusals, format_args!("refused a connection from {caller}: {refusal}"));
    }

    async fn hear(&self, stream: &mut Stream) -> Result<Hello, HandshakeError> {
        if let Stream::Unix(stream) = stream {
            unix::check_user(stream)?;
        }
        let mut preamble = [0; PREAMBLE_BYTES];
        read_all(stream, &mut preamble).await?;
        let protocol = check_preamble(&self.identity, &preamble)?;
        let mut rest = [0; HELLO_BYTES - PREAMBLE_BYTES];
        read_all(stream, &mut rest).await?;
        let hello = Hello::decode(protocol, &rest);
        check_hello(&self.identity, &hello)?;
        Ok(hello)
    }

    /// Tells the dialler why it is refused, and logs the refusal.
    async fn refuse(&self, mut stream: Stream, caller: Caller, refusal: &HandshakeError, patience: Duration) {
        self.note_refusal(caller, refusal);
        let Some(verdict) = encode_verdict(Some(refusal)) else { return };
        let farewell = async {
            stream.write_all(&verdict).await?;
            stream.shutdown().await?;
            tokio::io::copy(&mut stream.take(LEFTOVER_BYTES_MAX), &mut tokio::io::sink()).await
        };
        // Whatever the result, the connection is closed afterwards.
        let _ = timeout(patience, farewell).await;
    }

    /// Tells the dialler that it is welcome and waits for its confirmation. Returns what the bytes will go
    /// through: rings, or a connection of a card, if the dialler asks for them and both sides can use them.
    async fn welcome(&self, stream: &mut Stream, hello: &Hello) -> Result<Extra, HandshakeError> {
        stream.tune()?;
        let rings = self.rings.filter(|_| hello.asks == Asks::Rings && stream.is_unix());
        let shared = rings.and_then(unix::memory);
        if let Some(verdict) = encode_verdict(None) {
            let mut sent = 0;
            if let (Stream::Unix(stream), Some(shared)) = (&*stream, &shared) {
                sent = unix::send_with_memory(stream, &verdict, shared).await?;
            }
            stream.write_all(&verdict[sent..]).await?;
            stream.flush().await?;
        }
        let mut half = None;
        if hello.asks == Asks::Rdma {
            let begun = self.rdma.as_ref().map(|plane| plane.begin(hello.from, hello.channel)).transpose();
            half = begun.unwrap_or_else(|error| {
                tracing::warn!("the connection to node {} does not use RDMA: {error}", hello.from);
                None
            });
            let offer = half.as_ref().map_or([0; rdma::OFFER_BYTES], rdma::Half::offer);
            stream.write_all(&offer).await?;
        }
        let mut confirmation = [0; MAGIC.len()];
        read_all(stream, &mut confirmation).await?;
        match (confirmation, shared, half) {
            (MAGIC, ..) => Ok(Extra::None),
            (MAGIC_RINGS, Some(shared), _) => Ok(Extra::Rings(shared)),
            (MAGIC_RDMA, _, Some(half)) => {
                let mut offered = [0; rdma::OFFER_BYTES];
                read_all(stream, &mut offered).await?;
                let (last_word, extra) = match half.connect(&offered) {
                    Ok(connection) => (MAGIC_RDMA, Extra::Rdma(connection)),
                    Err(reason) => {
                        tracing::warn!("the connection to node {} does not use RDMA: {reason}", hello.from);
                        (MAGIC, Extra::None)
                    }
                };
                stream.write_all(&last_word).await?;
                Ok(extra)
            }
            _ => Err(HandshakeError::NotIntendant),
        }
    }

    /// Logs a warning unless there were many of its kind before.
    fn warn(&self, throttle: &Mutex<Throttle>, sentence: std::fmt::Arguments<'_>) {
        let now = Tick(self.opened.elapsed().as_micros() as u64);
        match lock(throttle).pass(now) {
            Some(suppressed) => tracing::warn!("{sentence}{suppressed}"),
            None => tracing::debug!("{sentence}"),
        }
    }
}

impl Reservation<'_> {
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let place = if self.kept { Place::Taken } else { Place::Free };
        self.gate.with_place(self.rank, self.channel, |now| *now = place);
    }
}

/// Fills `bytes`. The error distinguishes the end of the stream from other errors.
pub(crate) async fn read_all(stream: &mut Stream, bytes: &mut [u8]) -> Result<(), HandshakeError> {
    match stream.read_exact(bytes).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(HandshakeError::Closed),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::address::Transport;
    use super::super::mesh::Listener;
    use super::*;
    use tokio::net::TcpStream;

    /// A connection over the node's Unix socket, if it has one, else over TCP.
    async fn pair(transport: Transport) -> (Stream, Stream) {
        let listener = Listener::bind("127.0.0.1:0".parse().expect("an address"), transport).expect("a port");
        let (address, doors) = (listener.address(), listener.open().expect("in a runtime"));
        let (dialled, accepted) = tokio::join!(Stream::connect(&address, true, None), doors.accept());
        let (dialled, (accepted, _)) =
            (dialled.expect("the listener is there"), accepted.expect("a dialler"));
        assert_eq!((dialled.is_unix(), accepted.is_unix()), (address.unix.is_some(), address.unix.is_some()));
        (dialled, accepted)
    }

    #[tokio::test]
    async fn a_peer_that_closes_is_no_broken_connection() {
        for transport in [Transport::Tcp, Transport::Unix] {
            let (mut dialled, mut accepted) = pair(transport).await;
            dialled.write_all(b"half").await.expect("it fits into the socket's buffer");
            drop(dialled);
            let error = read_all(&mut accepted, &mut [0; 8]).await.expect_err("4 bytes are missing");
            assert!(matches!(error, HandshakeError::Closed), "{error}");

            let (dialled, mut accepted) = pair(transport).await;
            accepted.write_all(b"unread").await.expect("it fits into the socket's buffer");
            if let Stream::Tcp(dialled) = &dialled {
                TcpStream::set_zero_linger(dialled).expect("a connected socket");
            }
            drop(dialled);
            let error = read_all(&mut accepted, &mut [0; 8]).await.expect_err("the connection is reset");
            assert!(!matches!(error, HandshakeError::Closed), "{error}");
        }
    }
}
