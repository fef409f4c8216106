//! The fabric among the nodes of one process.
//!
//! Frames pass without a copy through one queue per receiving channel. Everything else is as over TCP: frames
//! keep their order per link, and a fabric that leaves says goodbye. If a fabric is dropped without a
//! goodbye, the others report it as a lost peer.

use crate::{FabricEvent, LinkError, Sent};
use bytes::Bytes;
use intendant_core::NodeId;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

#[derive(Debug)]
enum Note {
    Frame(Bytes),
    Goodbye,
    Gone,
}

/// A node's end of the link to one peer.
#[derive(Debug)]
struct Link {
    to: UnboundedSender<(NodeId, Note)>,
    /// Bytes that the peer has not taken yet.
    backlog: Arc<AtomicUsize>,
    /// The same counter of the opposite direction, which this side counts down.
    incoming: Arc<AtomicUsize>,
    /// The peer's last note was received.
    ended: bool,
    /// A frame could not be delivered because the peer has ended.
    undelivered: bool,
}

/// A fabric before it is moved to the thread that will use it.
#[derive(Debug)]
pub struct Builder(Fabric);

impl Builder {
    /// The fabric. It works under any runtime.
    pub fn finish(self) -> Fabric {
        self.0
    }
}

/// The in-process links of one channel of one node: see [`crate::Fabric`] for what its methods promise.
#[derive(Debug)]
pub struct Fabric {
    rank: NodeId,
    /// The links by rank; `None` for this node itself.
    links: Vec<Option<Link>>,
    inbox: UnboundedReceiver<(NodeId, Note)>,
    /// Peers that said goodbye and ended without waiting for this node's goodbye.
    lost: VecDeque<NodeId>,
    sent: Sent,
    closing: bool,
    finished: bool,
}

/// Connects `nodes` nodes over `channels` channels each; the builders are indexed by node, then channel.
///
/// # Panics
/// If there are more nodes than ranks.
pub fn mesh(nodes: usize, channels: usize) -> Vec<Vec<Builder>> {
    assert!(nodes <= usize::from(u16::MAX), "{nodes} nodes: a rank has 16 bits");
    let mut builders: Vec<Vec<Builder>> = (0..nodes).map(|_| Vec::with_capacity(channels)).collect();
    for _ in 0..channels {
        let (outboxes, inboxes): (Vec<_>, Vec<_>) = (0..nodes).map(|_| unbounded_channel()).unzip();
        let backlogs: Vec<Vec<Arc<AtomicUsize>>> =
            (0..nodes).map(|_| (0..nodes).map(|_| Arc::default()).collect()).collect();
        for (node, inbox) in inboxes.into_iter().enumerate() {
            let link = |peer: usize| Link {
                to: outboxes[peer].clone(),
                backlog: backlogs[node][peer].clone(),
                incoming: backlogs[peer][node].clone(),
                ended: false,
                undelivered: false,
            };
            let links = (0..nodes).map(|peer| (peer != node).then(|| link(peer))).collect();
            let rank = NodeId(node as u16);
            let fabric = Fabric {
                rank,
                links,
                inbox,
                lost: VecDeque::new(),
                sent: Sent::default(),
                closing: false,
                finished: false,
            };
            builders[node].push(Builder(fabric));
        }
    }
    builders
}

impl Fabric {
    pub(crate) fn rank(&self) -> NodeId {
        self.rank
    }

    pub(crate) fn nodes(&self) -> usize {
        self.links.len()
    }

    pub(crate) fn send(&mut self, to: NodeId, frame: Bytes) {
        self.sent.messages += 1;
        self.sent.bytes += frame.len() as u64;
        let Some(link) = self.links[to.index()].as_mut().filter(|link| !self.closing && !link.undelivered)
        else {
            return;
        };
        let bytes = frame.len();
        // Relaxed: a statistic; the queue itself orders the frames.
        link.backlog.fetch_add(bytes, Ordering::Relaxed);
        if link.to.send((self.rank, Note::Frame(frame))).is_err() {
            link.backlog.fetch_sub(bytes, Ordering::Relaxed);
            link.undelivered = true;
            if link.ended {
                self.lost.push_back(to);
            }
        }
    }

    pub(crate) fn backlog_bytes(&self, to: NodeId) -> usize {
        self.links[to.index()].as_ref().map_or(0, |link| link.backlog.load(Ordering::Relaxed))
    }

    pub(crate) fn sent(&self) -> Sent {
        self.sent
    }

    pub(crate) fn close(&mut self) {
        if !self.closing {
            self.closing = true;
            self.tell_all(|| Note::Goodbye);
        }
    }

    fn tell_all(&self, note: impl Fn() -> Note) {
        for link in self.links.iter().flatten() {
            // A peer that has ended needs no goodbye.
            let _ = link.to.send((self.rank, note()));
        }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<FabricEvent> {
        if let Some(peer) = self.lost.pop_front() {
            return Poll::Ready(FabricEvent::Lost { peer, error: LinkError::Vanished });
        }
        if self.links.iter().flatten().all(|link| link.ended) {
            if self.closing && !self.finished {
                self.finished = true;
                return Poll::Ready(FabricEvent::Finished);
            }
            return Poll::Pending;
        }
        // The inbox ends only after every peer's fabric is dropped, and each fabric sends a last note before
        // that.
        let Some((peer, note)) = ready!(self.inbox.poll_recv(cx)) else { return Poll::Pending };
        let Some(link) = &mut self.links[peer.index()] else { return Poll::Pending };
        Poll::Ready(match note {
            Note::Frame(frame) => {
                link.incoming.fetch_sub(frame.len(), Ordering::Relaxed);
                FabricEvent::Frame { from: peer, frame }
            }
            Note::Goodbye => {
                link.ended = true;
                if link.undelivered {
                    self.lost.push_back(peer);
                }
                FabricEvent::Closed { peer }
            }
            Note::Gone => {
                // No further event about this peer.
                (link.ended, link.undelivered) = (true, true);
                FabricEvent::Lost { peer, error: LinkError::Vanished }
            }
        })
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        if !self.closing {
            self.tell_all(|| Note::Gone);
        }
    }
}
