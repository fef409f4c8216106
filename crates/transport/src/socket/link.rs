//! One connection of one channel to one peer: reading, writing, and how both end.

use super::carrier::Carrier;
use super::incoming::{Incoming, Item};
use super::outgoing::{Outgoing, PREFIX_BYTES, SLICES_MAX};
use super::rings::Rings;
use super::spare::Spare;
use crate::LinkError;
use bytes::Bytes;
use std::io::{self, IoSlice};
use std::mem;
use std::task::{Context, Poll, ready};

/// The most writes to one link before the other links have their turn. With full slices they are a few MiB,
/// far more than a socket's buffer: the limit matters only for a peer that reads as fast as this node writes.
const WRITES_PER_TURN_MAX: usize = 16;

/// What the writing half is doing.
#[derive(Debug)]
enum Writing {
    /// Frames may be added.
    Open,
    /// The goodbye is queued; after it the half is shut.
    Leaving,
    /// Shut in order.
    Ended,
    /// A write failed. Queued data is dropped; `frames` says whether it contained frames.
    Failed { error: io::Error, frames: bool },
}

/// The result of a round of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// There is nothing left to write, or the half is over.
    All,
    /// The socket takes no more; the waker is registered if one was given.
    Blocked,
    /// There is more, but other links have their turn first.
    Some,
}

/// The result of one read.
#[derive(Debug)]
pub(crate) enum Read {
    /// Bytes arrived; take what is complete with [`Link::next_item`].
    Some,
    /// The stream is over.
    End(LinkError),
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Link {
    carrier: Carrier,
    incoming: Incoming,
    outgoing: Outgoing,
    /// True until the peer's goodbye.
    reading: bool,
    writing: Writing,
    /// The link is in the fabric's list of links to poll.
    pub(crate) queued: bool,
    /// The link is in the fabric's list of links with frames that may not have been written.
    pub(crate) dirty: bool,
}

impl Link {
    pub(crate) fn new(carrier: Carrier) -> Self {
        Self {
            carrier,
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            reading: true,
            writing: Writing::Open,
            queued: false,
            dirty: false,
        }
    }

    /// Queues a frame, unless the writing half is over: the fabric's events report that.
    pub(crate) fn push(&mut self, head: Bytes, rest: Bytes) {
        if matches!(self.writing, Writing::Open) {
            self.outgoing.push(head, rest);
        }
    }

    /// Queues the goodbye.
    pub(crate) fn leave(&mut self) {
        if matches!(self.writing, Writing::Open) {
            self.outgoing.push_goodbye();
            self.writing = Writing::Leaving;
        }
    }

    pub(crate) fn backlog_bytes(&self) -> usize {
        self.outgoing.bytes() + self.carrier.unsent()
    }

    /// Whether the peer is on the same host, and frames go through a Unix socket.
    pub(crate) fn is_on_this_host(&self) -> bool {
        self.carrier.is_on_this_host()
    }

    /// Whether the peer may still send.
    pub(crate) fn reads(&self) -> bool {
        self.reading
    }

    /// Writes what is queued. Without a context, it does not wait.
    pub(crate) fn write(&mut self, mut cx: Option<&mut Context<'_>>) -> Wrote {
        if matches!(self.writing, Writing::Ended | Writing::Failed { .. }) {
            return Wrote::All;
        }
        for _ in 0..WRITES_PER_TURN_MAX {
            if self.outgoing.bytes() == 0 {
                return self.after_all_taken(cx);
            }
            match self.write_once(cx.as_deref_mut()) {
                Poll::Pending => return Wrote::Blocked,
                Poll::Ready(Ok(written)) => self.outgoing.advance(written),
                Poll::Ready(Err(error)) => {
                    self.fail(error);
                    return Wrote::All;
                }
            }
        }
        Wrote::Some
    }

    fn write_once(&mut self, cx: Option<&mut Context<'_>>) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let used = self.outgoing.slices(&mut slices);
        let written = match cx {
            Some(cx) => ready!(self.carrier.poll_write(cx, &slices[..used])),
            None => match self.carrier.try_write(&slices[..used]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                other => other,
            },
        };
        Poll::Ready(match written {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            other => other,
        })
    }

    /// Continues after the carrier has taken everything. The carrier may still have to write some of it.
    fn after_all_taken(&mut self, mut cx: Option<&mut Context<'_>>) -> Wrote {
        match self.carrier.poll_flush(cx.as_deref_mut()) {
            Poll::Pending => Wrote::Blocked,
            Poll::Ready(Err(error)) => {
                self.fail(error);
                Wrote::All
            }
            Poll::Ready(Ok(())) => {
                self.carrier.rest();
                self.after_last_write(cx)
            }
        }
    }

    /// Shuts the writing half once the goodbye is out. Only a full turn does it: it needs a context.
    fn after_last_write(&mut self, cx: Option<&mut Context<'_>>) -> Wrote {
        match (&self.writing, cx) {
            (Writing::Leaving, Some(cx)) => match self.carrier.poll_shutdown(cx) {
                Poll::Pending => return Wrote::Blocked,
                // An error here means that the peer has ended already; its goodbye or the end of its stream
                // shows how.
                Poll::Ready(_) => self.writing = Writing::Ended,
            },
            (Writing::Leaving, None) => return Wrote::Blocked,
            (Writing::Open | Writing::Ended | Writing::Failed { .. }, _) => {}
        }
        Wrote::All
    }

    fn fail(&mut self, error: io::Error) {
        let goodbye = if matches!(self.writing, Writing::Leaving) { PREFIX_BYTES } else { 0 };
        let frames = mem::take(&mut self.outgoing).bytes() + self.carrier.unsent() > goodbye;
        self.writing = Writing::Failed { error, frames };
    }

    /// Reads once, into memory of `spare`. Afterwards, call [`Link::next_item`] until it yields nothing, and
    /// then [`Link::rest`].
    pub(crate) fn read(&mut self, cx: &mut Context<'_>, spare: &mut Spare) -> Poll<Read> {
        // The carrier is asked before a buffer is taken, so that a silent link has no buffer.
        if let Err(error) = ready!(self.carrier.poll_read_ready(cx)) {
            return Poll::Ready(Read::End(error.into()));
        }
        Poll::Ready(match ready!(self.carrier.poll_read(cx, self.incoming.room(spare), spare)) {
            Ok(0) => Read::End(self.incoming.at_end()),
            Ok(_) => Read::Some,
            Err(error) => Read::End(error.into()),
        })
    }

    /// Takes the next complete frame; after the goodbye the reading half is over.
    pub(crate) fn next_item(&mut self) -> Result<Option<Item>, LinkError> {
        let item = self.incoming.next()?;
        if matches!(item, Some(Item::Goodbye)) {
            self.reading = false;
            self.carrier.say_farewell();
        }
        Ok(item)
    }

    /// Gives the buffer back if it is not needed. Call it once every complete item has been taken.
    pub(crate) fn rest(&mut self, spare: &mut Spare) {
        self.incoming.rest(spare);
    }

    /// The rings of the connection, if it has some.
    pub(crate) fn rings(&mut self) -> Option<&mut Rings> {
        self.carrier.rings()
    }

    pub(crate) fn write_failed(&self) -> bool {
        matches!(self.writing, Writing::Failed { .. })
    }

    /// The reason of a failed write. The caller reports it once there is nothing more to read: what the peer
    /// sent before still counts.
    pub(crate) fn failure(&self) -> Option<LinkError> {
        match &self.writing {
            Writing::Failed { error, frames } if self.reading || *frames => {
                Some(io::Error::new(error.kind(), error.to_string()).into())
            }
            Writing::Failed { .. } | Writing::Open | Writing::Leaving | Writing::Ended => None,
        }
    }

    /// Whether both halves are over.
    pub(crate) fn over(&self) -> bool {
        !self.reading && matches!(self.writing, Writing::Ended | Writing::Failed { .. })
    }
}
