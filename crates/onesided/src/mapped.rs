//! Windows of memory: the segments of all nodes are memory of this process.

use crate::link::{Life, Link, Waker};
use crate::mailbox::{self, Mailbox};
use crate::window::{check_hint, check_places};
use crate::{ConnectError, Event, HINTS, WaitError, Window, WindowError};
use intendant_segment::Segment;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

const _: () = assert!(mailbox::HINTS == HINTS as usize);

/// Calls of `poll` between two checks whether nodes have ended: a check makes a system call per process,
/// which takes as long as a hundred calls of `poll` without one. `wait` notices the end of a node at once.
const POLLS_PER_LOOK: u32 = 256;

/// Windows of one process connect at most this many nodes.
pub(crate) const NODES_MAX: usize = 1 << 12;

/// A window to nodes whose segments are mapped: those of this process ([`in_process`]), or processes of this
/// host ([`crate::Host::connect`]).
///
/// The calling thread executes an operation as a copy, which has ended when `read` or `write` returns; `poll`
/// reports it nevertheless, as in any window.
///
/// The window notices that a process has ended, whatever the cause, but not that a process hangs.
#[derive(Debug)]
pub struct MappedWindow {
    rank: usize,
    local: Segment,
    mailbox: Mailbox,
    /// The other nodes by number; `None` for this node and for nodes of other hosts.
    peers: Vec<Option<Peer>>,
    waker: Waker,
    life: Option<Arc<Life>>,
    /// Events that were not polled yet.
    events: Vec<Event>,
    polls_to_look: u32,
}

/// Another node.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) segment: Segment,
    pub(crate) mailbox: Mailbox,
    /// `None` if the node has ended.
    pub(crate) link: Option<Link>,
}

/// Makes windows between `nodes` nodes of this process, each with a segment of at least `words` words. The
/// segments are memory of this process only; threads may have one window each.
///
/// # Errors
/// If there are no nodes or more than 4,096, if the memory is refused ([`Segment::new`]), or if the process
/// has no descriptors left (two per node).
pub fn in_process(nodes: usize, words: usize) -> Result<Vec<MappedWindow>, ConnectError> {
    check_nodes(nodes)?;
    let refused = |node| move |source| ConnectError::Memory { node, source };
    let segments = (0..nodes).map(|node| Segment::new(words).map_err(refused(node)));
    let segments = segments.collect::<Result<Vec<_>, _>>()?;
    let mailboxes =
        (0..nodes).map(|node| Segment::new(mailbox::WORDS).map(Mailbox::new).map_err(refused(node)));
    let mailboxes = mailboxes.collect::<Result<Vec<_>, _>>()?;
    let system = |source| ConnectError::System { action: "making the bell of a node (eventfd)", source };
    let lives = (0..nodes).map(|_| Life::begin().map_err(system)).collect::<Result<Vec<_>, _>>()?;
    let peer = |node: usize| Peer {
        segment: segments[node].clone(),
        mailbox: mailboxes[node].clone(),
        link: Some(Link::Life(Arc::clone(&lives[node]))),
    };
    let window = |rank: usize| {
        let peers = (0..nodes).map(|node| (node != rank).then(|| peer(node))).collect();
        let (segment, mailbox) = (segments[rank].clone(), mailboxes[rank].clone());
        MappedWindow::new(rank, segment, mailbox, peers, Some(Arc::clone(&lives[rank])))
    };
    (0..nodes).map(window).collect()
}

pub(crate) fn check_nodes(nodes: usize) -> Result<(), ConnectError> {
    match nodes {
        0 => Err(ConnectError::NoNodes),
        1..=NODES_MAX => Ok(()),
        _ => Err(ConnectError::TooManyNodes { nodes, nodes_max: NODES_MAX }),
    }
}

impl MappedWindow {
    /// Makes the window of node `rank`. `life`, if other nodes of this process look at it, ends with the
    /// window.
    pub(crate) fn new(
        rank: usize,
        local: Segment,
        mailbox: Mailbox,
        peers: Vec<Option<Peer>>,
        life: Option<Arc<Life>>,
    ) -> Result<Self, ConnectError> {
        let system =
            |source| ConnectError::System { action: "making a window's set of links (epoll)", source };
        let waker = Waker::new(life.clone()).map_err(system)?;
        for (node, peer) in peers.iter().enumerate() {
            if let Some(Peer { link: Some(link), .. }) = peer {
                waker.add(node, link).map_err(system)?;
            }
        }
        Ok(Self {
            rank,
            local,
            mailbox,
            peers,
            waker,
            life,
            events: Vec::new(),
            polls_to_look: POLLS_PER_LOOK,
        })
    }

    /// The memory of another node, for reads in place, for example by [`intendant_segment::slot::get`].
    /// `None` for this node, for numbers without a node, and for nodes that are not on this host. After the
    /// node has ended, the memory stays as the node has left it.
    #[must_use]
    pub fn mapped(&self, node: usize) -> Option<&Segment> {
        Some(&self.peers.get(node)?.as_ref()?.segment)
    }

    /// Checks that node and words exist. Returns the node.
    fn checked(&self, node: usize, local: usize, remote: usize, words: usize) -> Result<&Peer, WindowError> {
        let peer = match self.peers.get(node) {
            None => return Err(WindowError::Node { node, nodes: self.peers.len() }),
            Some(None) if node == self.rank => return Err(WindowError::Own { node }),
            Some(None) => return Err(WindowError::Elsewhere { node }),
            Some(Some(peer)) => peer,
        };
        let places = [(node, remote, peer.segment.words()), (self.rank, local, self.local.words())];
        check_places(words, places)?;
        Ok(peer)
    }

    /// Notes the end of nodes that have ended.
    fn look(&mut self) {
        self.polls_to_look = POLLS_PER_LOOK;
        for node in 0..self.peers.len() {
            if let Some(peer) = &mut self.peers[node]
                && peer.link.as_ref().is_some_and(Link::has_ended)
            {
                // A socket that is closed leaves the set of links by itself.
                peer.link = None;
                // The node has sent its hints before it ended.
                self.take_hints();
                let reason = "it has ended, or has dropped its window".to_owned();
                self.events.push(Event::Closed { node, reason });
            }
        }
    }

    fn take_hints(&mut self) {
        let events = &mut self.events;
        self.mailbox.take(|hint| events.push(Event::Hint(hint as u32)));
    }
}

fn ended(id: u64, node: usize) -> Event {
    Event::Failed { id, node, reason: format!("node {node} has ended") }
}

impl Window for MappedWindow {
    fn local(&self) -> &Segment {
        &self.local
    }

    fn nodes(&self) -> usize {
        self.peers.len()
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn read(
        &mut self,
        from: usize,
        remote: usize,
        into: usize,
        words: usize,
        id: u64,
    ) -> Result<(), WindowError> {
        let peer = self.checked(from, into, remote, words)?;
        let event = if peer.link.is_some() {
            self.local.copy(into, &peer.segment, remote, words);
            Event::Done(id)
        } else {
            ended(id, from)
        };
        self.events.push(event);
        Ok(())
    }

    fn write(
        &mut self,
        to: usize,
        local: usize,
        remote: usize,
        words: usize,
        hint: Option<u32>,
        id: u64,
    ) -> Result<(), WindowError> {
        let peer = self.checked(to, local, remote, words)?;
        check_hint(hint)?;
        let event = if let Some(link) = &peer.link {
            peer.segment.copy(remote, &self.local, local, words);
            // Release: everything that this thread writes to the node from now on comes after these words.
            fence(Ordering::Release);
            if let Some(hint) = hint
                && peer.mailbox.send(hint as usize)
            {
                link.wake();
            }
            Event::Done(id)
        } else {
            ended(id, to)
        };
        self.events.push(event);
        Ok(())
    }

    fn poll(&mut self, out: &mut Vec<Event>) {
        self.take_hints();
        self.polls_to_look -= 1;
        if self.polls_to_look == 0 {
            self.look();
        }
        out.append(&mut self.events);
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, WaitError> {
        if !self.events.is_empty() || !self.mailbox.fall_asleep() {
            return Ok(true);
        }
        let woken = self.waker.wait(timeout);
        self.mailbox.awake();
        let woken = woken?;
        if woken {
            self.look();
        }
        Ok(woken)
    }
}

impl Drop for MappedWindow {
    fn drop(&mut self) {
        let Some(life) = &self.life else { return };
        life.end();
        // Links to processes end with their sockets.
        for link in self.peers.iter().flatten().filter_map(|peer| peer.link.as_ref()) {
            link.wake();
        }
    }
}
