//! A station: a channel with its thread, its timer and its waiting inputs.

#[cfg(doc)]
use super::event::Event;
use crate::facility::Facility;
use bytes::Bytes;
use intendant_core::{ChannelId, Element, Key, NodeId};
use intendant_engine::{Channel, Input, LookTimer, Shared, SnapshotAsk, Submission};
use intendant_techniques::clocks::NodeClock;
use std::collections::VecDeque;
use std::sync::Arc;

/// An item that a worker or the simulator puts into a channel's inbox.
pub(super) enum InboxItem {
    Access(Submission),
    /// The node decides to relocate keys to another node.
    Relocate(Vec<Key>, NodeId),
    /// The node decides to acquire replicas of keys (`true`) or to drop them.
    Replicate(Vec<Key>, bool),
    Snapshot(SnapshotAsk),
    Clock(NodeClock),
    /// Wakes a sleeping channel.
    Wake,
    /// Synchronise replicas, then report.
    Report,
}

/// A channel of a node with its waiting inputs. Stations are numbered by node, then channel.
pub(super) struct Station<E> {
    pub(super) engine: Channel<E>,
    /// Items with their arrival times.
    pub(super) inbox: VecDeque<(u64, InboxItem)>,
    /// Received frames with their arrival times, by sending node.
    pub(super) received: Vec<VecDeque<(u64, Bytes)>>,
    /// The nodes of which frames wait in `received`, in ascending order.
    pub(super) senders: Vec<u16>,
    pub(super) thread: Facility,
    /// The input that the thread works on.
    pub(super) current: Option<Input>,
    pub(super) timer: Timer,
    /// When the thread looks for work that no input announces, as threads of nodes do.
    pub(super) looks: LookTimer,
    /// The part of the thread's busy time that `looks` knows, in µs.
    pub(super) known_busy: u64,
    /// Messages sent.
    pub(super) sent: u64,
}

impl<E: Element> Station<E> {
    /// The station of a channel of `node`, without inputs.
    pub(super) fn new(channel: usize, node: &Arc<Shared<E>>, looks: LookTimer) -> Self {
        let nodes = node.layout().nodes();
        Self {
            engine: Channel::new(ChannelId(channel as u16), Arc::clone(node)),
            inbox: VecDeque::new(),
            received: (0..nodes).map(|_| VecDeque::new()).collect(),
            senders: Vec::with_capacity(nodes),
            thread: Facility::default(),
            current: None,
            timer: Timer::default(),
            looks,
            known_busy: 0,
            sent: 0,
        }
    }

    /// A frame of node `from` is received.
    pub(super) fn receive(&mut self, from: usize, at_ns: u64, frame: Bytes) {
        let received = &mut self.received[from];
        if received.is_empty() {
            let from = from as u16;
            let at = self.senders.partition_point(|sender| *sender < from);
            self.senders.insert(at, from);
        }
        received.push_back((at_ns, frame));
    }

    /// Takes the next frame of the sender at `at` of `senders`: the sender, the time of arrival, the frame.
    pub(super) fn take_received(&mut self, at: usize) -> (NodeId, u64, Bytes) {
        let from = self.senders[at];
        let received = &mut self.received[usize::from(from)];
        let (came_ns, frame) = received.pop_front().expect("a sender has a frame here");
        if received.is_empty() {
            self.senders.remove(at);
        }
        (NodeId(from), came_ns, frame)
    }

    /// Number of received frames.
    pub(super) fn frames(&self) -> usize {
        self.received.iter().map(VecDeque::len).sum()
    }

    /// Number of requests of workers or other nodes that the channel works on or that wait in its inbox.
    /// Ticks and wake-ups do not count.
    pub(super) fn requests(&self) -> usize {
        let current = self.current.as_ref().is_some_and(|input| !matches!(input, Input::Tick | Input::Wake));
        let waiting = self.inbox.iter().filter(|(_, item)| !matches!(item, InboxItem::Wake)).count();
        waiting + usize::from(current)
    }

    /// Whether an input waits, ticks aside.
    pub(super) fn has_input(&self) -> bool {
        !self.inbox.is_empty() || !self.senders.is_empty()
    }
}

/// A channel's timer, set to [`Channel::due`].
#[derive(Default)]
pub(super) struct Timer {
    /// Expiry time; [`Event::Due`] events of other times are void.
    pub(super) at_ns: Option<u64>,
    /// It has expired, and the channel has not handled the tick yet.
    pub(super) is_due: bool,
}
