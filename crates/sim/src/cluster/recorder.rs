//! Traces: what happens to parameters, in virtual time.

use intendant_core::{ChannelId, NodeId, Tick};
use intendant_trace::{Event, What};

/// How often, in virtual time, is recorded how many bytes each node has sent to each.
const SENT_EVERY_NS: u64 = 50_000_000;

/// From how many events on they should be taken.
const MANY: usize = 1 << 12;

/// What is recorded, and not taken yet.
pub(super) struct Recorder {
    events: Vec<(NodeId, Event)>,
    /// By connection, bytes that are not recorded yet.
    sent: Vec<u64>,
    /// When they will be.
    due_ns: u64,
}

impl Recorder {
    /// Nothing is recorded yet.
    pub(super) fn new(links: usize) -> Self {
        Self { events: Vec::new(), sent: vec![0; links], due_ns: SENT_EVERY_NS }
    }

    /// Takes the events so far, in the order of time.
    pub(super) fn take(&mut self) -> Vec<(NodeId, Event)> {
        std::mem::take(&mut self.events)
    }

    /// Whether there are enough events to be taken.
    pub(super) fn is_full(&self) -> bool {
        self.events.len() >= MANY
    }

    /// Records what happens at a node, to no key.
    pub(super) fn note(&mut self, at: Tick, node: NodeId, what: What) {
        self.events.push((node, Event { at, channel: ChannelId(0), key: None, what }));
    }

    /// Records events of a channel of `node`.
    pub(super) fn add(&mut self, node: NodeId, events: impl Iterator<Item = Event>) {
        self.events.extend(events.map(|event| (node, event)));
    }

    /// A frame with so many charged bytes enters a connection.
    pub(super) fn sent(&mut self, link: usize, bytes: u64) {
        self.sent[link] += bytes;
    }

    /// Whether it is time to record the bytes on connections.
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.due_ns
    }

    /// Records the bytes on connections since the last call. `ends` are sender, receiver and channel of a
    /// connection.
    pub(super) fn record_sent(&mut self, now_ns: u64, ends: impl Fn(usize) -> (usize, usize, usize)) {
        for (link, bytes) in self.sent.iter_mut().enumerate().filter(|(_, bytes)| **bytes > 0) {
            let (from, to, channel) = ends(link);
            let what = What::Sent { to: NodeId(to as u16), bytes: std::mem::take(bytes) };
            let channel = ChannelId(channel as u16);
            let event = Event { at: Tick(now_ns / 1000), channel, key: None, what };
            self.events.push((NodeId(from as u16), event));
        }
        self.due_ns = now_ns + SENT_EVERY_NS;
    }
}
