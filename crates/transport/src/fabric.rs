//! The links of one channel to its peers, over any transport.

use crate::{FabricEvent, Sent, local, socket};
use bytes::Bytes;
use intendant_core::NodeId;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker};

/// One channel's links to the same channel of all other nodes. It belongs to one thread; a [`FabricBuilder`]
/// travels between threads.
///
/// All flavours promise the same. Frames of one node to another arrive complete and in order. Sending never
/// waits. Polling reads from all peers in turn *and* writes what is pending, so that a channel that keeps
/// polling keeps reading even if no peer takes its frames. A lost peer is reported as an event, never as an
/// error of a call.
#[derive(Debug)]
pub enum Fabric {
    /// Among the nodes of one process.
    Local(local::Fabric),
    /// Among processes, over rings in shared memory, Unix sockets, TCP connections and RDMA.
    Socket(socket::Fabric),
}

/// A fabric before it is moved to the thread that will use it.
#[derive(Debug)]
pub enum FabricBuilder {
    /// Among the nodes of one process.
    Local(local::Builder),
    /// Among processes, over rings in shared memory, Unix sockets, TCP connections and RDMA.
    Socket(socket::Builder),
}

impl FabricBuilder {
    /// Finishes the fabric on the thread, and within the tokio runtime, that will use it.
    ///
    /// # Errors
    /// If the operating system refuses.
    ///
    /// # Panics
    /// If the fabric runs over sockets and the call is not inside a tokio runtime with I/O enabled.
    pub fn finish(self) -> io::Result<Fabric> {
        Ok(match self {
            Self::Local(builder) => Fabric::Local(builder.finish()),
            Self::Socket(builder) => Fabric::Socket(builder.finish()?),
        })
    }
}

impl From<local::Builder> for FabricBuilder {
    fn from(builder: local::Builder) -> Self {
        Self::Local(builder)
    }
}

impl From<socket::Builder> for FabricBuilder {
    fn from(builder: socket::Builder) -> Self {
        Self::Socket(builder)
    }
}

impl From<local::Fabric> for Fabric {
    fn from(fabric: local::Fabric) -> Self {
        Self::Local(fabric)
    }
}

impl From<socket::Fabric> for Fabric {
    fn from(fabric: socket::Fabric) -> Self {
        Self::Socket(fabric)
    }
}

impl Fabric {
    /// This node.
    pub fn rank(&self) -> NodeId {
        match self {
            Self::Local(fabric) => fabric.rank(),
            Self::Socket(fabric) => fabric.rank(),
        }
    }

    /// Nodes of the cluster, this one included.
    pub fn nodes(&self) -> usize {
        match self {
            Self::Local(fabric) => fabric.nodes(),
            Self::Socket(fabric) => fabric.nodes(),
        }
    }

    /// Queues a frame, and writes if much is queued. The caller must bound what it queues
    /// ([`Fabric::backlog_bytes`]). The fabric drops a frame to a lost peer, and any frame after
    /// [`Fabric::close`].
    ///
    /// # Panics
    /// If `to` is this node itself or not part of the cluster, or the frame is longer than
    /// [`intendant_core::limits::FRAME_BYTES_MAX`]: a message to oneself needs no fabric, and no peer would
    /// accept the longer frame.
    pub fn send(&mut self, to: NodeId, frame: Bytes) {
        self.send_parts(to, frame, Bytes::new());
    }

    /// Queues a frame that consists of `head` and then `rest`. It does not copy long parts on their way to a
    /// socket.
    ///
    /// # Panics
    /// As [`Fabric::send`].
    pub fn send_parts(&mut self, to: NodeId, head: Bytes, rest: Bytes) {
        assert!(
            to != self.rank() && to.index() < self.nodes(),
            "frame from {:?} to {to:?} of {}",
            self.rank(),
            self.nodes()
        );
        let bytes_max = intendant_core::limits::FRAME_BYTES_MAX;
        assert!(
            head.len() + rest.len() <= bytes_max,
            "a frame of {} bytes was to be sent, allowed are {bytes_max}",
            head.len() + rest.len()
        );
        match self {
            Self::Local(fabric) if rest.is_empty() => fabric.send(to, head),
            Self::Local(fabric) => fabric.send(to, [head, rest].concat().into()),
            Self::Socket(fabric) => fabric.send(to, head, rest),
        }
    }

    /// Writes what the sockets take right now, without waiting. Call it at the end of a turn: frames then
    /// leave one poll earlier. The frames of one turn leave together, except those that were already enough
    /// for a write of their own.
    pub fn try_flush(&mut self) {
        match self {
            Self::Local(_) => {}
            Self::Socket(fabric) => fabric.try_flush(),
        }
    }

    /// Reads, writes, and yields the next event. If it returns `Pending`, it wakes the waker when there is
    /// more to do.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<FabricEvent> {
        self.poll_and(cx, true)
    }

    fn poll_and(&mut self, cx: &mut Context<'_>, sleeps: bool) -> Poll<FabricEvent> {
        match self {
            Self::Local(fabric) => fabric.poll(cx),
            Self::Socket(fabric) => fabric.poll(cx, sleeps),
        }
    }

    /// The next event; [`Fabric::poll`] as a future. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> FabricEvent {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// The next event if there is one right now, e.g. to handle several in one turn. Only [`Fabric::next`]
    /// and [`Fabric::poll`] arrange to be woken.
    pub fn try_next(&mut self) -> Option<FabricEvent> {
        match self.poll_and(&mut Context::from_waker(Waker::noop()), false) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        }
    }

    /// How many peers, connected over rings in shared memory, may run on cores that this thread may run on as
    /// well; `None` if no peer is connected over rings.
    pub fn ring_peers_on_own_cores(&mut self) -> Option<usize> {
        match self {
            Self::Local(_) => None,
            Self::Socket(fabric) => fabric.ring_peers_on_own_cores(),
        }
    }

    /// Whether there is something to do in a ring in shared memory: frames have come, or there is room for
    /// frames that wait for it. It costs two loads per ring and no system call. It does not look at sockets,
    /// so a caller that repeats it must also poll now and then.
    pub fn stirs(&mut self) -> bool {
        match self {
            Self::Local(_) => false,
            Self::Socket(fabric) => fabric.stirs(),
        }
    }

    /// Bytes queued for a peer that are not on their way yet.
    ///
    /// # Panics
    /// If `to` is not part of the cluster.
    pub fn backlog_bytes(&self, to: NodeId) -> usize {
        match self {
            Self::Local(fabric) => fabric.backlog_bytes(to),
            Self::Socket(fabric) => fabric.backlog_bytes(to),
        }
    }

    /// The frames and bytes sent so far.
    pub fn sent(&self) -> Sent {
        match self {
            Self::Local(fabric) => fabric.sent(),
            Self::Socket(fabric) => fabric.sent(),
        }
    }

    /// Starts to leave in order: the fabric sends a goodbye after everything that was sent, then shuts its
    /// half of each connection. Keep polling until [`FabricEvent::Finished`]: peers may still have frames for
    /// this node. If the fabric is dropped earlier, the others report a lost peer, or frames that were not
    /// written are lost.
    pub fn close(&mut self) {
        match self {
            Self::Local(fabric) => fabric.close(),
            Self::Socket(fabric) => fabric.close(),
        }
    }
}
