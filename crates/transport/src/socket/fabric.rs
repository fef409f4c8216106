//! The connections of one channel of one node.

use super::arrivals::Arrivals;
use super::incoming::Item;
use super::link::{Link, Read, Wrote};
use super::ready::Ready;
use super::rings::Rings;
use super::spare::Spare;
use super::stream::Parked;
use crate::{FabricEvent, LinkError, Sent};
use bytes::Bytes;
use intendant_core::NodeId;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The connections of one channel before they are moved to the thread that will use them.
#[derive(Debug)]
pub struct Builder {
    rank: NodeId,
    links: Vec<Option<Parked>>,
    arrivals: Arc<Arrivals>,
}

impl Builder {
    /// `links` has one established, nonblocking stream per peer, and `None` for the node itself.
    pub(crate) fn new(rank: NodeId, links: Vec<Option<Parked>>, arrivals: Arc<Arrivals>) -> Self {
        Self { rank, links, arrivals }
    }

    /// Registers the connections with the runtime that this is called in, which must be the one that uses
    /// them.
    ///
    /// # Errors
    /// If the operating system refuses.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O enabled.
    pub fn finish(self) -> io::Result<Fabric> {
        let (ready, wakers) = Ready::new(self.links.len());
        let mut fabric = Fabric {
            rank: self.rank,
            arrivals: self.arrivals,
            links: Vec::with_capacity(self.links.len()),
            wakers,
            ready,
            turn: VecDeque::new(),
            rings: Vec::new(),
            announced: false,
            dirty: Vec::new(),
            waiting: None,
            events: VecDeque::new(),
            spare: Spare::default(),
            sent: Sent::default(),
            ending: Ending::Open,
        };
        for (index, stream) in self.links.into_iter().enumerate() {
            let mut link = stream.map(Parked::resume).transpose()?.map(Link::new);
            if link.as_mut().is_some_and(|link| link.rings().is_some()) {
                fabric.rings.push(index);
            }
            fabric.links.push(link);
            // The first poll of a link registers its waker.
            fabric.queue(index);
        }
        Ok(fabric)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Open,
    Closing,
    Finished,
}

/// A link that has this much to write does not wait for the flush: it writes at once, while the bytes are
/// still in the cache, so that the peer may begin. A system call costs about as much as handling the keys in
/// this many bytes.
const WRITTEN_AT_ONCE_BYTES: usize = 16 << 10;

/// A single frame of fewer bytes waits for a second frame to the same peer: two frames of 64 KiB in one
/// system call make pushes of 128 values of 512 bytes an eighth faster. Only one link waits like this: with
/// many peers there is usually one frame for each peer in a turn.
const FRAME_WRITTEN_AT_ONCE_BYTES: usize = 128 << 10;

/// The connections of one channel of one node: see [`crate::Fabric`] for what its methods promise.
#[derive(Debug)]
pub struct Fabric {
    rank: NodeId,
    arrivals: Arc<Arrivals>,
    /// The links by rank; `None` for this node itself, and for a peer whose link is over.
    links: Vec<Option<Link>>,
    wakers: Vec<Waker>,
    ready: Arc<Ready>,
    /// Links to poll, in order; each at most once.
    turn: VecDeque<usize>,
    /// Links over rings that are not over. A change in a ring wakes only a side that has announced that it
    /// sleeps, so each poll looks at the rings.
    rings: Vec<usize>,
    /// The peers at the other ends of the rings believe that this side sleeps.
    announced: bool,
    /// Links with frames that may not have been written; each at most once.
    dirty: Vec<usize>,
    /// The link whose single frame waits for another frame, if there is one.
    waiting: Option<usize>,
    /// The events of one read, which bounds this queue.
    events: VecDeque<FabricEvent>,
    /// Memory to read into.
    spare: Spare,
    sent: Sent,
    ending: Ending,
}

impl Fabric {
    pub(crate) fn rank(&self) -> NodeId {
        self.rank
    }

    pub(crate) fn nodes(&self) -> usize {
        self.links.len()
    }

    pub(crate) fn send(&mut self, to: NodeId, head: Bytes, rest: Bytes) {
        self.sent.messages += 1;
        let bytes = (head.len() + rest.len()) as u64;
        self.sent.bytes += bytes;
        let Some(link) = &mut self.links[to.index()] else { return };
        if link.is_on_this_host() {
            self.sent.unix_bytes += bytes;
        }
        let single = link.backlog_bytes() == 0;
        link.push(head, rest);
        if !link.dirty {
            link.dirty = true;
            self.dirty.push(to.index());
        }
        let bytes = link.backlog_bytes();
        if bytes < WRITTEN_AT_ONCE_BYTES {
            return;
        }
        // The flush handles the rest of an incomplete write, and a failed one.
        if !single || bytes >= FRAME_WRITTEN_AT_ONCE_BYTES {
            link.write(None);
        } else if let Some(other) = self.waiting.replace(to.index())
            && other != to.index()
            && let Some(other) = &mut self.links[other]
        {
            other.write(None);
        }
    }

    pub(crate) fn backlog_bytes(&self, to: NodeId) -> usize {
        self.links[to.index()].as_ref().map_or(0, Link::backlog_bytes)
    }

    pub(crate) fn sent(&self) -> Sent {
        self.sent
    }

    pub(crate) fn close(&mut self) {
        if self.ending != Ending::Open {
            return;
        }
        self.ending = Ending::Closing;
        for index in 0..self.links.len() {
            if let Some(link) = &mut self.links[index] {
                link.leave();
                self.queue(index);
            }
        }
    }

    pub(crate) fn try_flush(&mut self) {
        self.waiting = None;
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            if let Some(link) = &mut self.links[index] {
                link.dirty = false;
                // `poll` handles the rest and errors: only `poll` can wait for the socket and return events.
                if link.write(None) != Wrote::All || link.write_failed() {
                    self.queue(index);
                }
            }
        }
        self.dirty = dirty;
    }

    /// The number of peers over rings that may run on cores of this process; `None` if there are no rings.
    pub(crate) fn ring_peers_on_own_cores(&mut self) -> Option<usize> {
        let links = &mut self.links;
        let mut shares =
            |index: &usize| links[*index].as_mut().and_then(Link::rings).is_some_and(|r| r.shares_cores());
        let peers = self.rings.iter().filter(|&index| shares(index)).count();
        (!self.rings.is_empty()).then_some(peers)
    }

    /// Whether there is something to do in a ring.
    pub(crate) fn stirs(&mut self) -> bool {
        let links = &mut self.links;
        self.rings.iter().any(|&index| links[index].as_mut().and_then(Link::rings).is_some_and(Rings::stirs))
    }

    /// `sleeps` means that the caller waits for the waker if nothing is ready, and does not poll again by
    /// itself.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, sleeps: bool) -> Poll<FabricEvent> {
        if let Some(event) = self.events.pop_front() {
            return Poll::Ready(event);
        }
        self.ready.register(cx.waker());
        self.try_flush();
        self.awake();
        // The set is taken only once: when tokio's cooperative budget is used up, a link notes itself at
        // once. A link that is noted from here on has woken the caller.
        self.queue_noted();
        loop {
            self.queue_rings();
            while let Some(index) = self.turn.pop_front() {
                self.look_at(index);
                if let Some(event) = self.events.pop_front() {
                    return Poll::Ready(event);
                }
            }
            if self.ending == Ending::Closing && self.links.iter().all(Option::is_none) {
                self.ending = Ending::Finished;
                return Poll::Ready(FabricEvent::Finished);
            }
            if !sleeps || self.fall_asleep() {
                return Poll::Pending;
            }
        }
    }

    /// Queues the links in whose rings there is something to do.
    fn queue_rings(&mut self) {
        let (links, turn) = (&mut self.links, &mut self.turn);
        self.rings.retain(|&index| {
            let Some(rings) = links[index].as_mut().and_then(Link::rings) else { return false };
            if rings.stirs() {
                queue(links, turn, index);
            }
            true
        });
    }

    /// Tells the peers at the other ends of rings that this side sleeps. Returns whether it may sleep.
    fn fall_asleep(&mut self) -> bool {
        self.announced = !self.rings.is_empty();
        let links = &mut self.links;
        self.rings
            .iter()
            .all(|&index| links[index].as_mut().and_then(Link::rings).is_none_or(Rings::fall_asleep))
    }

    /// Takes back what [`Self::fall_asleep`] has announced.
    fn awake(&mut self) {
        if std::mem::take(&mut self.announced) {
            for index in &self.rings {
                if let Some(rings) = self.links[*index].as_mut().and_then(Link::rings) {
                    rings.awake();
                }
            }
        }
    }

    fn queue_noted(&mut self) {
        let (links, turn) = (&mut self.links, &mut self.turn);
        self.ready.take(|index| queue(links, turn, index));
    }

    fn queue(&mut self, index: usize) {
        queue(&mut self.links, &mut self.turn, index);
    }

    /// Writes to and reads from one link until it would block, or others should have their turn.
    fn look_at(&mut self, index: usize) {
        let Some(link) = &mut self.links[index] else { return };
        link.queued = false;
        let (peer, cx) = (NodeId(index as u16), &mut Context::from_waker(&self.wakers[index]));
        let mut again = link.write(Some(cx)) == Wrote::Some;
        let mut lost = None;
        if link.reads() {
            match link.read(cx, &mut self.spare) {
                Poll::Pending => {
                    // The last read may have taken a buffer that it did not need.
                    link.rest(&mut self.spare);
                    lost = link.failure();
                }
                // A reset is reported once, to the first call: after a failed write, reads just see the end
                // of the stream.
                Poll::Ready(Read::End(error)) => lost = Some(link.failure().unwrap_or(error)),
                Poll::Ready(Read::Some) => {
                    again = true;
                    self.arrivals.note(index);
                    lost = take_items(link, peer, &mut self.events).err();
                    link.rest(&mut self.spare);
                }
            }
        }
        if lost.is_none() && !link.reads() {
            lost = link.failure();
        }
        let over = link.over();
        if let Some(error) = lost {
            self.events.push_back(FabricEvent::Lost { peer, error });
            self.links[index] = None;
        } else if over {
            self.links[index] = None;
        } else if again {
            self.queue(index);
        }
    }
}

/// Passes on every complete item that has arrived on a link.
fn take_items(link: &mut Link, peer: NodeId, events: &mut VecDeque<FabricEvent>) -> Result<(), LinkError> {
    while let Some(item) = link.next_item()? {
        events.push_back(match item {
            Item::Frame(frame) => FabricEvent::Frame { from: peer, frame },
            Item::Goodbye => FabricEvent::Closed { peer },
        });
    }
    Ok(())
}

fn queue(links: &mut [Option<Link>], turn: &mut VecDeque<usize>, index: usize) {
    if let Some(link) = &mut links[index]
        && !link.queued
    {
        link.queued = true;
        turn.push_back(index);
    }
}
