//! One connection of one channel to one peer: reading, writing, and how both end.

use super::incoming::{Incoming, Item};
use super::outgoing::{Outgoing, PREFIX_BYTES, SLICES_MAX};
use super::spare::Spare;
use crate::LinkError;
use bytes::Bytes;
use rustix::net::sockopt;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;

/// Writes to one link before the other links have their turn. With full slices this is a few MiB, far beyond
/// a socket's buffer: only a peer that reads as fast as we write gets here.
const WRITES_PER_TURN_MAX: usize = 16;

/// Data that a peer's machine has not acknowledged for so long, or a peer's machine that does not answer at
/// all, is a lost peer. Without this the operating system would retry for a quarter of an hour, or would
/// never notice if nothing is in flight. Longer than the control plane's own silence of 5 s, which names the
/// lost node; both together stay below ten.
const UNANSWERED: Duration = Duration::from_secs(7);
/// How long a connection may be silent before the peer's machine is asked whether it is there, and how often
/// then.
const PROBE_AFTER: Duration = Duration::from_secs(3);
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Sets what every connection needs: small frames leave at once, and a cut is noticed.
pub(crate) fn tune(stream: &TcpStream) -> io::Result<()> {
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
    /// There is more, but others have their turn first.
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
    stream: TcpStream,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Until the peer's goodbye.
    reading: bool,
    writing: Writing,
    /// In the fabric's list of links to poll.
    pub(crate) queued: bool,
    /// In the fabric's list of links with frames that may not have been written.
    pub(crate) dirty: bool,
}

impl Link {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
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
        self.outgoing.bytes()
    }

    /// Whether the peer may still send.
    pub(crate) fn reads(&self) -> bool {
        self.reading
    }

    /// Writes what is queued. Without a context it tries only.
    pub(crate) fn write(&mut self, mut cx: Option<&mut Context<'_>>) -> Wrote {
        if matches!(self.writing, Writing::Ended | Writing::Failed { .. }) {
            return Wrote::All;
        }
        for _ in 0..WRITES_PER_TURN_MAX {
            if self.outgoing.bytes() == 0 {
                return self.after_last_write(cx);
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
            Some(cx) => ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &slices[..used])),
            None => match self.stream.try_write_vectored(&slices[..used]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                other => other,
            },
        };
        Poll::Ready(match written {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            other => other,
        })
    }

    /// Shuts the writing half once the goodbye is out. Only a full turn does it: it needs a context.
    fn after_last_write(&mut self, cx: Option<&mut Context<'_>>) -> Wrote {
        match (&self.writing, cx) {
            (Writing::Leaving, Some(cx)) => match Pin::new(&mut self.stream).poll_shutdown(cx) {
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
        let frames = mem::take(&mut self.outgoing).bytes() > goodbye;
        self.writing = Writing::Failed { error, frames };
    }

    /// Reads once, into memory of `spare`. Afterwards, [`Link::next_item`] until it yields nothing, then
    /// [`Link::rest`].
    pub(crate) fn read(&mut self, cx: &mut Context<'_>, spare: &mut Spare) -> Poll<Read> {
        // Asked first, so that a link that is silent has no buffer.
        if let Err(error) = ready!(self.stream.poll_read_ready(cx)) {
            return Poll::Ready(Read::End(error.into()));
        }
        Poll::Ready(match ready!(pin!(self.stream.read_buf(self.incoming.room(spare))).poll(cx)) {
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
        }
        Ok(item)
    }

    /// Everything that was complete has been taken.
    pub(crate) fn rest(&mut self, spare: &mut Spare) {
        self.incoming.rest(spare);
    }

    pub(crate) fn write_failed(&self) -> bool {
        matches!(self.writing, Writing::Failed { .. })
    }

    /// The reason of a failed write, once there is nothing more to read: what the peer sent before it failed
    /// still counts.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames would wait for acknowledgements, and a cut would be noticed after minutes.
    #[tokio::test]
    async fn small_frames_leave_at_once_and_a_cut_is_noticed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        assert!(!stream.nodelay().expect("a socket"));
        tune(&stream).expect("a socket");
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
