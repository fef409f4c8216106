//! A connection over RDMA whose bytes go through messages of a network card (SEND and RECEIVE). Its TCP
//! connection stays, as the notice that the peer has ended: a card does not report that.
//!
//! Each side has pieces of memory for incoming messages, and counts how many pieces of the other side are
//! free: these are its credits. A message uses one credit, and carries the number of pieces that its sender
//! has freed since its previous message. So every message finds a free piece (cards would wait otherwise),
//! and a peer that does not read stops the other side as a full socket does. The last credit is reserved for
//! a message without bytes, which only reports free pieces. A side that uses its last credit reports free
//! pieces to the other side by doing so, so the two sides never wait for each other.
//!
//! The card reads and writes only messages, in pieces that this side names. No peer has access to memory.

use crate::TransportError;
use bytes::{Buf, BufMut, BytesMut};
use intendant_core::{ChannelId, NodeId};
use intendant_segment::Segment;
use intendant_verbs::{
    Access, Card, Completion, Completions, DeviceError, Domain, Memory, Pair, Path, QueuePair, Room,
};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{self, IpAddr};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::unix::pipe;
use tokio::time::{Sleep, sleep};

/// The number of pieces of each direction of a connection, and the bytes of each piece; the preferred sizes
/// are first. Nodes with many connections use smaller sizes.
const SIZES: [(usize, usize); 5] = [(16, 16 << 10), (16, 8 << 10), (16, 4 << 10), (8, 4 << 10), (4, 4 << 10)];

/// The most memory for all connections of a node. It is locked.
const NODE_BYTES_MAX: usize = 64 << 20;

/// The pieces of a peer: an offer of fewer is refused, and of more only the most are used.
const PIECES: std::ops::RangeInclusive<usize> = 4..=32;

/// The most messages in flight to a peer, with and without bytes.
const MESSAGES_MAX: usize = *PIECES.end() + 2;

/// Credits that messages with bytes leave for a message without bytes.
const CREDITS_LEFT: usize = 1;

const WORD: usize = 8;

/// Bytes that are copied out of a piece at a time, on their way to a buffer: a part of the first-level cache.
const BLOCK_BYTES: usize = 1 << 10;

/// The bits of a packet number.
const PACKET_MASK: u32 = 0x00ff_ffff;

/// How long a card may take to return the operations in flight of a connection that has ended.
const RETURN_WITHIN: Duration = Duration::from_secs(2);

/// The most rounds of completions before other links have their turn.
const STIRS_PER_TURN_MAX: usize = 16;

/// The id of the completion of a sent message. The id of a reception is the number of its piece.
const SENT: u64 = u64::MAX;

/// Bytes of an [`Offer`] on the wire.
pub(crate) const OFFER_BYTES: usize = 36;

/// The card of a node that is not part of a mesh yet.
#[derive(Debug)]
pub(crate) struct Port(Card);

impl Port {
    /// The port with this IP address, or the first one that fits.
    pub(crate) fn find(address: IpAddr) -> Result<Self, TransportError> {
        Ok(Self(Card::find(None, Some(address)).or_else(|_| Card::find(None, None))?))
    }
}

/// The state that the connections of a node share.
#[derive(Debug)]
pub(crate) struct Plane {
    card: Card,
    domain: Arc<Domain>,
    /// For each connection, the pieces for outgoing messages and then those for incoming messages.
    memory: Arc<Memory>,
    pieces: usize,
    piece_words: usize,
    rank: NodeId,
    channels: u16,
}

impl Plane {
    /// Locks the memory of all connections.
    pub(crate) fn new(port: Port, rank: NodeId, nodes: usize, channels: u16) -> Result<Self, TransportError> {
        let Port(card) = port;
        let connections = nodes.saturating_sub(1) * usize::from(channels);
        let fits = |(pieces, bytes): &(usize, usize)| {
            connections.saturating_mul(2 * pieces * bytes) <= NODE_BYTES_MAX
        };
        let Some((pieces, bytes)) = SIZES.into_iter().find(fits) else {
            return Err(TransportError::Crowded { connections });
        };
        let piece_words = bytes / WORD;
        let domain = card.domain()?;
        let segment =
            Segment::new((connections * 2 * pieces * piece_words).max(1)).map_err(io::Error::other)?;
        let memory = Arc::new(Memory::new(&domain, segment, Access::Local)?);
        let address = card.address().map_or_else(|| "InfiniBand".to_owned(), |address| address.to_string());
        tracing::debug!(
            "RDMA by {} ({address}): {pieces} pieces of {bytes} bytes per connection and direction",
            card.name()
        );
        Ok(Self { card, domain, memory, pieces, piece_words, rank, channels })
    }

    /// Creates this node's end of the connection of a channel to a peer. Only one end exists at a time: the
    /// caller must have dropped an earlier end, of a failed handshake.
    pub(crate) fn begin(&self, peer: NodeId, channel: ChannelId) -> io::Result<Half> {
        let peer = peer.index() - usize::from(peer > self.rank);
        let index = peer * usize::from(self.channels) + channel.index();
        let direction = self.pieces * self.piece_words;
        let completions = Completions::new(&self.domain, MESSAGES_MAX + self.pieces)?;
        let room = Room { operations: MESSAGES_MAX, receptions: self.pieces };
        let memory = vec![self.memory.segment().clone()];
        let pair = QueuePair::new(&self.domain, &completions, room, Access::Local, memory)?;
        let mut packet = [0; 4];
        getrandom::fill(&mut packet).map_err(|error| io::Error::other(error.to_string()))?;
        let offer = Offer {
            path: self.card.path(),
            pair: Pair { number: pair.number(), first_packet: u32::from_le_bytes(packet) & PACKET_MASK },
            pieces: self.pieces,
            piece_bytes: self.piece_words * WORD,
        };
        let pieces = Pieces {
            memory: Arc::clone(&self.memory),
            sends: 2 * index * direction,
            receives: (2 * index + 1) * direction,
            words: self.piece_words,
            count: self.pieces,
        };
        for piece in 0..self.pieces {
            pieces.receive(&pair, piece)?;
        }
        Ok(Half { pair, completions, pieces, offer })
    }
}

/// A node's offer of a connection to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    path: Path,
    pair: Pair,
    /// The number of the node's pieces for incoming messages.
    pieces: usize,
    piece_bytes: usize,
}

impl Offer {
    fn to_bytes(self) -> [u8; OFFER_BYTES] {
        let Self { path, pair, pieces, piece_bytes } = self;
        let mut bytes = [0; OFFER_BYTES];
        let mut rest = &mut bytes[..];
        rest.put_slice(&[1, u8::from(path.ethernet), path.mtu, path.reads]);
        rest.put_u16_le(path.lid);
        rest.put_u16_le(pieces as u16);
        for word in [piece_bytes as u32, pair.number, pair.first_packet] {
            rest.put_u32_le(word);
        }
        rest.put_slice(&path.gid);
        bytes
    }

    /// `None` if the bytes are no offer, or one that cannot be used.
    fn from_bytes(bytes: &[u8; OFFER_BYTES]) -> Option<Self> {
        let mut rest = &bytes[..];
        let [offers, ethernet, mtu, reads] = [rest.get_u8(), rest.get_u8(), rest.get_u8(), rest.get_u8()];
        let (lid, pieces, piece_bytes) = (rest.get_u16_le(), rest.get_u16_le(), rest.get_u32_le() as usize);
        let pair = Pair { number: rest.get_u32_le(), first_packet: rest.get_u32_le() };
        let mut gid = [0; 16];
        rest.copy_to_slice(&mut gid);
        let path = Path { gid, lid, ethernet: ethernet != 0, mtu, reads };
        let pieces = usize::from(pieces).min(*PIECES.end());
        let good = offers == 1
            && (1..=5).contains(&mtu)
            && reads > 0
            && PIECES.contains(&pieces)
            && piece_bytes >= WORD
            && piece_bytes.is_multiple_of(WORD);
        good.then_some(Self { path, pair, pieces, piece_bytes })
    }
}

/// The pieces of one connection.
#[derive(Debug)]
struct Pieces {
    memory: Arc<Memory>,
    /// The first words of the outgoing and of the incoming pieces.
    sends: usize,
    receives: usize,
    /// Words of a piece.
    words: usize,
    count: usize,
}

impl Pieces {
    /// Posts a piece as the place for an incoming message.
    fn receive(&self, pair: &QueuePair, piece: usize) -> io::Result<()> {
        let at = self.receives + piece * self.words;
        pair.receive_into(piece as u64, &self.memory, at, self.words * WORD)
    }
}

/// One end of a connection that is not established yet.
#[derive(Debug)]
pub(crate) struct Half {
    pair: QueuePair,
    completions: Arc<Completions>,
    pieces: Pieces,
    offer: Offer,
}

impl Half {
    /// The offer to send to the peer.
    pub(crate) fn offer(&self) -> [u8; OFFER_BYTES] {
        self.offer.to_bytes()
    }

    /// Connects to the end that a peer has offered. The error says why this node does not use the offer.
    pub(crate) fn connect(self, offered: &[u8; OFFER_BYTES]) -> Result<Box<Connection>, String> {
        let Self { pair, completions, pieces, offer: own } = self;
        let Some(peer) = Offer::from_bytes(offered) else {
            return Err("the peer does not use it".to_owned());
        };
        if peer.path.ethernet != own.path.ethernet {
            return Err("one of the ports is of Ethernet (RoCE), the other one of InfiniBand".to_owned());
        }
        // Neither side issues RDMA reads on this connection.
        pair.connect(&own.path, own.pair.first_packet, &peer.path, peer.pair, 1)
            .map_err(|error| format!("connecting a queue pair (ibv_modify_qp): {error}"))?;
        Ok(Box::new(Connection {
            pair: Some(pair),
            completions,
            message_bytes_max: own.piece_bytes.min(peer.piece_bytes),
            credits: peer.pieces,
            credits_max: peer.pieces,
            owed: 0,
            sent: VecDeque::new(),
            next_piece: 0,
            filled: VecDeque::new(),
            offset: 0,
            awaited: pieces.count,
            scratch: Vec::new(),
            taken: Vec::new(),
            state: State::Open,
            pieces,
        }))
    }
}

#[derive(Debug)]
enum State {
    Open,
    /// Messages that have arrived are still to be read. This side sends nothing and posts no more pieces.
    Ending {
        /// Why, unless the peer has just ended.
        reason: Option<String>,
    },
}

/// A connection: its messages in flight, and the credits of both sides.
#[derive(Debug)]
pub(crate) struct Connection {
    /// `None` once this side has given up waiting for the card.
    pair: Option<QueuePair>,
    completions: Arc<Completions>,
    pieces: Pieces,
    message_bytes_max: usize,
    /// Messages for which the peer has room.
    credits: usize,
    credits_max: usize,
    /// Pieces that are free again and that the peer does not know of yet.
    owed: usize,
    /// Bytes of each message in flight; messages complete in this order.
    sent: VecDeque<usize>,
    /// The piece for the next message with bytes.
    next_piece: usize,
    /// Pieces with bytes that are not read yet, and the number of bytes in each.
    filled: VecDeque<(usize, usize)>,
    /// Bytes of the first filled piece that are already read.
    offset: usize,
    /// Pieces that the card has, and will return filled or at the end.
    awaited: usize,
    /// A message that is put together from several slices.
    scratch: Vec<u8>,
    taken: Vec<Completion>,
    state: State,
}

impl Connection {
    /// Handles the completions that have arrived. Returns whether there were any, or the card has failed.
    fn take(&mut self) -> bool {
        let mut taken = std::mem::take(&mut self.taken);
        let mut some = false;
        loop {
            let more = self.completions.take(&mut taken);
            some |= !taken.is_empty();
            taken.drain(..).for_each(|completion| self.completed(completion));
            match more {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.end(Some(error.to_string()));
                    self.give_up();
                    some = true;
                    break;
                }
            }
        }
        self.taken = taken;
        if some {
            self.tell_credits();
        }
        some
    }

    fn completed(&mut self, Completion { id, result, bytes }: Completion) {
        if id == SENT {
            match result {
                Ok(_) => drop(self.sent.pop_front()),
                Err(status) => self.end(Some(status)),
            }
            return;
        }
        self.awaited = self.awaited.saturating_sub(1);
        let credits = match result {
            Ok(credits) => credits,
            Err(status) => return self.end(Some(status)),
        };
        let piece = id as usize;
        if bytes > 0 {
            self.filled.push_back((piece, bytes));
        } else {
            self.free(piece);
        }
        match credits.and_then(|credits| self.credits.checked_add(credits as usize)) {
            Some(credits) if credits <= self.credits_max => self.credits = credits,
            Some(_) | None => self.end(Some("the peer counts its room wrongly".to_owned())),
        }
    }

    /// Posts a piece again after it was read.
    fn free(&mut self, piece: usize) {
        let (State::Open, Some(pair)) = (&self.state, &self.pair) else { return };
        match self.pieces.receive(pair, piece) {
            Ok(()) => {
                self.awaited += 1;
                self.owed += 1;
            }
            Err(error) => self.end(Some(format!("making room for a message: {error}"))),
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Ends the connection. Messages that arrived before are still read.
    fn end(&mut self, reason: Option<String>) {
        if self.is_open() {
            self.state = State::Ending { reason };
            if self.pair.as_ref().is_some_and(|pair| pair.fail().is_err()) {
                self.give_up();
            }
        }
    }

    /// Drops the queue pair: nothing arrives any more.
    fn give_up(&mut self) {
        self.pair = None;
        self.awaited = 0;
    }

    /// Whether nothing can arrive any more.
    fn is_over(&self) -> bool {
        !self.is_open() && self.awaited == 0
    }

    fn error(&self) -> io::Error {
        match &self.state {
            State::Ending { reason: Some(reason) } => {
                io::Error::new(io::ErrorKind::ConnectionReset, format!("RDMA: {reason}"))
            }
            State::Ending { reason: None } | State::Open => io::ErrorKind::BrokenPipe.into(),
        }
    }

    /// Whether a message with bytes may be sent.
    fn has_room(&self) -> bool {
        let with_bytes = self.sent.iter().filter(|bytes| **bytes > 0).count();
        self.credits > CREDITS_LEFT && self.sent.len() < MESSAGES_MAX && with_bytes < self.pieces.count
    }

    /// Reports free pieces to the peer, if they are many and no message with bytes has reported them.
    fn tell_credits(&mut self) {
        if self.is_open()
            && 2 * self.owed >= self.pieces.count
            && self.credits > 0
            && self.sent.len() < MESSAGES_MAX
        {
            self.post(0, 0);
        }
    }

    /// Sends a message of `bytes` bytes from word `at` on.
    fn post(&mut self, at: usize, bytes: usize) {
        let Some(pair) = &self.pair else { return };
        // `owed` is at most the number of pieces.
        match pair.send(SENT, &self.pieces.memory, at, bytes, self.owed as u32) {
            Ok(()) => {
                self.owed = 0;
                self.credits -= 1;
                self.sent.push_back(bytes);
            }
            Err(error) => self.end(Some(format!("sending a message: {error}"))),
        }
    }

    /// Sends as much of the slices, one after the other, as there is room for. Returns the number of bytes.
    fn write(&mut self, slices: &[IoSlice<'_>]) -> usize {
        let (mut written, mut slices) = (0, slices.iter().map(|slice| &slice[..]));
        let mut rest: &[u8] = &[];
        while self.is_open() && (self.has_room() || (self.take() && self.has_room())) {
            if rest.is_empty() {
                match slices.next() {
                    Some(next) => rest = next,
                    None => break,
                }
                continue;
            }
            let at = self.pieces.sends + self.next_piece * self.pieces.words;
            let segment = self.pieces.memory.segment();
            let bytes = if rest.len() >= self.message_bytes_max {
                let (now, later) = rest.split_at(self.message_bytes_max);
                segment.write_bytes(at, now);
                rest = later;
                now.len()
            } else {
                self.scratch.clear();
                while self.scratch.len() < self.message_bytes_max {
                    let (now, later) =
                        rest.split_at(rest.len().min(self.message_bytes_max - self.scratch.len()));
                    self.scratch.extend_from_slice(now);
                    rest = later;
                    if rest.is_empty() {
                        match slices.next() {
                            Some(next) => rest = next,
                            None => break,
                        }
                    }
                }
                let bytes = self.scratch.len();
                self.scratch.resize(bytes.next_multiple_of(WORD), 0);
                segment.write_bytes(at, &self.scratch);
                bytes
            };
            self.next_piece = (self.next_piece + 1) % self.pieces.count;
            self.post(at, bytes);
            written += bytes;
        }
        written
    }

    /// Appends the bytes that have arrived, as far as there is room. Returns the number of bytes.
    fn read(&mut self, room: &mut BytesMut) -> usize {
        let before = room.len();
        let mut block = [0; BLOCK_BYTES];
        while let Some((piece, bytes)) = self.filled.front().copied() {
            let left = bytes - self.offset;
            let free = room.capacity() - room.len();
            // Each part of a piece begins at a word.
            let now = if left <= free { left } else { free - free % WORD };
            let at = self.pieces.receives + piece * self.pieces.words;
            let mut copied = 0;
            while copied < now {
                let part = (now - copied).min(BLOCK_BYTES);
                let words = &mut block[..part.next_multiple_of(WORD)];
                self.pieces.memory.segment().read_bytes(at + (self.offset + copied) / WORD, words);
                room.extend_from_slice(&words[..part]);
                copied += part;
            }
            if now < left {
                self.offset += now;
                break;
            }
            self.offset = 0;
            self.filled.pop_front();
            self.free(piece);
        }
        self.tell_credits();
        room.len() - before
    }
}

/// A connection in the runtime that uses it.
#[derive(Debug)]
pub(crate) struct Rdma {
    /// A second descriptor of the completion queue. The runtime registers the reading end of a pipe for
    /// reading only, and uses no operation that this descriptor does not have. Nothing is read from it.
    watched: pipe::Receiver,
    connection: Box<Connection>,
    /// This connection ends when the peer ends.
    stream: TcpStream,
    /// True if the next completion makes the descriptor readable.
    armed: bool,
    /// A write found no room, and there has been none since.
    full: bool,
    /// The last poll waits until everything has arrived.
    drains: bool,
    /// The peer has said goodbye: nothing is read any more.
    farewell: bool,
    /// The peer has ended; what was sent to it may still arrive.
    gone: bool,
    /// The time limit for the card, once the peer or the connection has ended.
    patience: Option<Pin<Box<Sleep>>>,
}

impl Rdma {
    /// Registers the connection with the runtime that this is called in.
    pub(crate) fn new(stream: net::TcpStream, connection: Box<Connection>) -> io::Result<Self> {
        let watched = connection.completions.as_fd().try_clone_to_owned()?;
        Ok(Self {
            watched: pipe::Receiver::from_owned_fd_unchecked(watched)?,
            connection,
            stream: TcpStream::from_std(stream)?,
            armed: false,
            full: false,
            drains: false,
            farewell: false,
            gone: false,
            patience: None,
        })
    }

    /// Waits until something has happened, and handles it.
    fn poll_stir(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.connection.take() {
                return Poll::Ready(());
            }
            if self.connection.is_over() {
                return Poll::Ready(());
            }
            if !self.armed {
                match self.connection.completions.arm() {
                    Ok(()) => self.armed = true,
                    Err(error) => self.broken(&error),
                }
                // Completions that arrived before `arm` do not wake this side, so it looks for them again.
                continue;
            }
            if self.gone || !self.connection.is_open() {
                // A peer that has left in order has received everything, although the card may not know that
                // yet.
                if self.connection.is_open() && self.connection.sent.is_empty() {
                    self.connection.end(None);
                    continue;
                }
                let patience = self.patience.get_or_insert_with(|| Box::pin(sleep(RETURN_WITHIN)));
                if patience.as_mut().poll(cx).is_ready() {
                    self.connection.end(None);
                    self.connection.give_up();
                    return Poll::Ready(());
                }
            } else if self.poll_end(cx).is_ready() {
                continue;
            }
            let woken = ready!(self.watched.poll_read_ready(cx));
            match woken.and_then(|()| self.connection.completions.take_event()) {
                Ok(taken) => {
                    self.armed &= !taken;
                    // There is no other event until the next `arm`. The runtime learns this from a read that
                    // is refused. If an event is there nevertheless, it is longer than one byte, and so this
                    // read does not take it.
                    drop(self.watched.try_read(&mut [0]));
                }
                Err(error) => self.broken(&error),
            }
        }
    }

    /// The card of this node does not work.
    fn broken(&mut self, error: &io::Error) {
        self.connection.end(Some(error.to_string()));
        self.connection.give_up();
    }

    /// Checks whether the peer has ended.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut bytes = [0; WORD];
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer));
        match read {
            Ok(()) if buffer.filled().is_empty() => self.gone = true,
            Ok(()) => self.connection.end(Some("the peer has sent bytes beside it".to_owned())),
            Err(error) => self.connection.end(Some(error.to_string())),
        }
        Poll::Ready(())
    }

    /// Wakes this link if a write that found no room, or a wait for arrival, can go on because of what the
    /// reading side has just taken.
    fn note(&mut self, cx: &Context<'_>) {
        let ended = self.gone || !self.connection.is_open();
        let writes = self.full && (self.connection.has_room() || ended);
        let drained = self.drains && (self.connection.sent.is_empty() || !self.connection.is_open());
        if writes || drained {
            (self.full, self.drains) = (false, false);
            cx.waker().wake_by_ref();
        }
    }

    /// Ready once there are bytes to read, or the connection has ended.
    pub(crate) fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        for _ in 0..STIRS_PER_TURN_MAX {
            if !self.connection.filled.is_empty() || self.connection.is_over() {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_stir(cx));
            self.note(cx);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Appends what has arrived; a result of 0 bytes is the end of the connection.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut BytesMut) -> Poll<io::Result<usize>> {
        ready!(self.poll_read_ready(cx))?;
        Poll::Ready(match self.connection.read(room) {
            0 if self.gone => Ok(0),
            0 => match &self.connection.state {
                State::Ending { reason: Some(_) } => Err(self.connection.error()),
                State::Ending { reason: None } | State::Open => Ok(0),
            },
            bytes => Ok(bytes),
        })
    }

    pub(crate) fn try_write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = if self.gone { 0 } else { self.connection.write(slices) };
        self.full = written == 0;
        if written > 0 {
            return Ok(written);
        }
        let blocked = self.connection.is_open() && !self.gone;
        Err(if blocked { io::ErrorKind::WouldBlock.into() } else { self.connection.error() })
    }

    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        for _ in 0..STIRS_PER_TURN_MAX {
            match self.try_write(slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.poll_stir(cx)),
                done => return Poll::Ready(done),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Bytes of messages that have not arrived, on a connection that has ended.
    pub(crate) fn unsent(&self) -> usize {
        if self.connection.is_open() { 0 } else { self.connection.sent.iter().sum() }
    }

    /// After the peer's goodbye, waits until everything has arrived: nothing else would show that something
    /// did not arrive.
    pub(crate) fn poll_flush(&mut self, cx: Option<&mut Context<'_>>) -> Poll<io::Result<()>> {
        if let Some(cx) = cx.filter(|_| self.farewell) {
            ready!(self.poll_arrival(cx));
        }
        let lost = self.unsent() > 0;
        Poll::Ready(if lost { Err(self.connection.error()) } else { Ok(()) })
    }

    /// Nothing is written after the goodbye. When it has arrived, the process may end.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_arrival(cx).map(Ok)
    }

    /// Waits until everything has arrived or can no longer arrive.
    fn poll_arrival(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..STIRS_PER_TURN_MAX {
            self.drains = !self.connection.sent.is_empty() && self.connection.is_open();
            if !self.drains {
                return Poll::Ready(());
            }
            ready!(self.poll_stir(cx));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Notes the peer's goodbye: nothing is read from now on.
    pub(crate) fn say_farewell(&mut self) {
        self.farewell = true;
    }
}

impl From<DeviceError> for TransportError {
    fn from(error: DeviceError) -> Self {
        Self::Rdma(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_round_trip_and_others_are_refused() {
        let path = Path { gid: [7; 16], lid: 258, ethernet: true, mtu: 5, reads: 16 };
        let pair = Pair { number: 0x0012_3456, first_packet: 0x00ab_cdef };
        let offer = Offer { path, pair, pieces: 16, piece_bytes: 16 << 10 };
        let good = offer.to_bytes();
        let head = b"\x01\x01\x05\x10\x02\x01\x10\x00\x00\x40\x00\x00\x56\x34\x12\x00\xef\xcd\xab\x00";
        assert_eq!((&good[..20], &good[20..]), (&head[..], &[7; 16][..]));
        assert_eq!(Offer::from_bytes(&good), Some(offer));
        assert_eq!(Offer::from_bytes(&[0; OFFER_BYTES]), None, "no offer");
        for (at, byte) in [(0, 2), (2, 0), (2, 6), (3, 0), (6, 3), (8, 4)] {
            let mut wrong = good;
            wrong[at] = byte;
            assert_eq!(Offer::from_bytes(&wrong), None, "byte {at}");
        }
        let mut many = good;
        many[7] = 255;
        assert_eq!(Offer::from_bytes(&many).map(|offer| offer.pieces), Some(*PIECES.end()));
    }
}
