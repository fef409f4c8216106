//! A connection to a process of the same host whose bytes go through two rings in shared memory. Its Unix
//! socket stays: as the doorbell of a side that sleeps, and as the notice that the peer has ended.
//!
//! The acceptor makes the memory and sends its descriptor with the verdict (`accept.rs`); the dialler's
//! confirmation says whether the rings are used (`dial.rs`). So both sides agree, and a connection whose
//! descriptor did not arrive stays a Unix socket.

use super::cores;
use super::unix_stream::Unix;
use crate::ring::{self, Reader, Writer};
use crate::sync::Segment;
use bytes::BytesMut;
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::io::{self, IoSlice};
use std::os::unix::net as std_unix;
use std::task::{Context, Poll, ready};

/// The capacities that a ring may have, in bytes, the preferred one first: such a ring holds a few large
/// frames and stays in a core's cache. Nodes with many connections have smaller rings.
const CAPACITIES: [usize; 4] = [256 << 10, 128 << 10, 64 << 10, 32 << 10];

/// The most memory for all rings of a node. With more connections, rings are smaller; with far more, there
/// are none.
const NODE_BYTES_MAX: usize = 64 << 20;

/// The most doorbells, of one byte each, that one read takes.
const BELLS: usize = 64;

/// The most reads of doorbells before other links have their turn. A correct peer rings once per sleep.
const BELLS_PER_TURN_MAX: usize = 16;

/// The capacity of the rings of a node with so many connections; `None` if there is too little memory for
/// any.
pub(crate) fn capacity(connections: usize) -> Option<usize> {
    let fits = |capacity: &usize| connections.saturating_mul(2 * capacity) <= NODE_BYTES_MAX;
    CAPACITIES.into_iter().find(fits)
}

/// The memory of a connection's two rings.
#[derive(Debug)]
pub(crate) struct Shared {
    segment: Segment,
    capacity: usize,
    dialler: bool,
    /// The process at the other end, if it is known.
    pub(crate) peer: Option<i32>,
}

impl Shared {
    /// New memory, for the accepting side.
    #[cfg(target_os = "linux")]
    pub(crate) fn new(capacity: usize) -> Result<Self, intendant_segment::SegmentError> {
        let segment = Segment::shared(2 * ring::words(capacity))?;
        Ok(Self { segment, capacity, dialler: false, peer: None })
    }

    /// The memory that the accepting side has sent. The error says why it is not used.
    #[cfg(target_os = "linux")]
    pub(crate) fn open(descriptor: std::os::fd::OwnedFd) -> Result<Self, String> {
        let segment = Segment::open(descriptor).map_err(|error| error.to_string())?;
        let words = |capacity: &usize| (2 * ring::words(*capacity)).next_multiple_of(8) == segment.words();
        let capacity = CAPACITIES
            .into_iter()
            .find(words)
            .ok_or_else(|| format!("rings have no memory of {} words", segment.words()))?;
        Ok(Self { segment, capacity, dialler: true, peer: None })
    }

    /// The descriptor to send to the dialler.
    #[cfg(target_os = "linux")]
    pub(crate) fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.segment.fd()
    }

    /// The dialler writes the first ring, the acceptor the second one.
    fn ends(self) -> (Writer, Reader) {
        let (first, second) = (0, ring::words(self.capacity));
        let (to, from) = if self.dialler { (first, second) } else { (second, first) };
        (Writer::new(self.segment.clone(), to, self.capacity), Reader::new(self.segment, from, self.capacity))
    }
}

/// How the socket has ended.
#[derive(Clone, Copy, Debug)]
enum End {
    Closed,
    Broken(io::ErrorKind),
}

/// A connection over rings.
#[derive(Debug)]
pub(crate) struct Rings {
    socket: Unix,
    to: Writer,
    from: Reader,
    /// A write found no room, and nothing has been written since.
    full: bool,
    /// The peer has said goodbye: this side reads nothing any more, so only ringing the doorbell shows
    /// whether the peer lives.
    farewell: bool,
    end: Option<End>,
    /// Whether the peer may run on a core of this process.
    shares_cores: bool,
}

impl Rings {
    /// Registers the connection with the runtime that this is called in.
    pub(crate) fn new(socket: std_unix::UnixStream, shared: Shared) -> io::Result<Self> {
        let shares_cores = cores::shared_with(shared.peer);
        let (to, from) = shared.ends();
        let socket = Unix::new(socket)?;
        Ok(Self { socket, to, from, full: false, farewell: false, end: None, shares_cores })
    }

    /// Ready once there are bytes to read, or the connection has ended.
    pub(crate) fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        for _ in 0..BELLS_PER_TURN_MAX {
            // The end is looked at before the bytes: a peer may have written bytes before it ended.
            let ended = self.end.is_some();
            if self.from.available()? > 0 || ended {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_bell(cx));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Waits for doorbells or the end of the socket, and takes them.
    fn poll_bell(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.end.is_some() {
            return Poll::Ready(());
        }
        match ready!(self.socket.poll_take(cx, &mut [0; BELLS])) {
            Ok(0) => self.end = Some(End::Closed),
            Ok(_) => {}
            Err(error) => self.end = Some(End::Broken(error.kind())),
        }
        Poll::Ready(())
    }

    /// Appends what has arrived; a result of 0 bytes is the end of the connection.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut BytesMut) -> Poll<io::Result<usize>> {
        ready!(self.poll_read_ready(cx))?;
        let read = self.from.read(room, room.capacity() - room.len())?;
        if read > 0 {
            if self.from.must_wake() {
                // If the socket has ended, the next read or write reports it.
                let _ = self.ring();
            }
            return Poll::Ready(Ok(read));
        }
        Poll::Ready(match self.end {
            Some(End::Broken(kind)) => Err(kind.into()),
            Some(End::Closed) | None => Ok(0),
        })
    }

    /// Wakes the peer.
    fn ring(&self) -> io::Result<()> {
        match rustix::net::send(&self.socket, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            // A full socket holds doorbells that the peer has not taken yet.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn try_write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.end.is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let written = self.to.write(slices)?;
        self.full = written == 0;
        if self.full {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.to.must_wake() || self.farewell {
            self.ring()?;
        }
        Ok(written)
    }

    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        for _ in 0..BELLS_PER_TURN_MAX {
            match self.try_write(slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.poll_bell(cx)),
                done => return Poll::Ready(done),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether the peer may run on a core of this process.
    pub(crate) fn shares_cores(&self) -> bool {
        self.shares_cores
    }

    /// Notes the peer's goodbye: nothing is read from now on.
    pub(crate) fn say_farewell(&mut self) {
        self.farewell = true;
    }

    /// Whether there is something to do that no waker reports: bytes to read, room for what waits to be
    /// written, or a fault of the peer.
    pub(crate) fn stirs(&mut self) -> bool {
        let reads = !self.farewell && self.from.available() != Ok(0);
        reads || (self.full && self.to.has_room() != Ok(false))
    }

    /// Announces that this side waits for doorbells only. Returns whether it may wait.
    #[must_use = "no doorbell tells of what is there already"]
    pub(crate) fn fall_asleep(&mut self) -> bool {
        let reader = self.farewell || self.from.fall_asleep() == Ok(true);
        let writer = !self.full || self.to.fall_asleep() == Ok(true);
        reader && writer
    }

    /// Takes back what [`Self::fall_asleep`] has announced.
    pub(crate) fn awake(&self) {
        self.from.awake();
        self.to.awake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_of_many_connections_are_smaller_and_end() {
        for (connections, expected) in [
            (0, Some(256 << 10)),
            (128, Some(256 << 10)),
            (129, Some(128 << 10)),
            (256, Some(128 << 10)),
            (257, Some(64 << 10)),
            (513, Some(32 << 10)),
            (1_024, Some(32 << 10)),
            (1_025, None),
            (usize::MAX, None),
        ] {
            assert_eq!(capacity(connections), expected, "{connections}");
        }
    }
}
