//! Traces: what happens to parameters, in virtual time.

use super::recorded::Recording;
use super::{Cluster, Probe};
use intendant_core::{ChannelId, Element, NodeId, Tick};
use intendant_trace::{Event, Filter, Header, What};

/// How often, in virtual time, is recorded how many bytes each node has sent to each.
const SENT_EVERY_NS: u64 = 50_000_000;

impl<E: Element, P: Probe<E>> Cluster<E, P> {
    /// Records from now on what happens to the keys that `filter` accepts. Returns the headers of the nodes'
    /// traces.
    #[inline(never)]
    pub fn record(&mut self, filter: &Filter) -> Vec<Header> {
        self.stations.iter_mut().for_each(|station| station.engine.trace(filter.clone()));
        let sent = vec![0; self.links.len()];
        self.recording = Some(Recording { events: Vec::new(), sent, due_ns: SENT_EVERY_NS });
        let header = |node: &std::sync::Arc<intendant_engine::Shared<E>>| Header {
            filter: filter.to_string(),
            ..node.trace_header()
        };
        self.nodes.iter().map(header).collect()
    }

    /// What was recorded since the last call: nodes and their events, in the order of time.
    #[inline(never)]
    pub fn take_events(&mut self) -> Vec<(NodeId, Event)> {
        self.record_bytes();
        self.recording.as_mut().map_or_else(Vec::new, |recording| std::mem::take(&mut recording.events))
    }

    /// Whether something is recorded, and enough of it to be taken.
    pub fn has_events(&self) -> bool {
        const MANY: usize = 1 << 12;
        self.recording.as_ref().is_some_and(|recording| recording.events.len() >= MANY)
    }

    /// Records what happens at a node, to no key.
    pub fn note_event(&mut self, node: NodeId, what: What) {
        let at = Tick(self.queue.now_ns() / 1000);
        if let Some(recording) = &mut self.recording {
            recording.events.push((node, Event { at, channel: ChannelId(0), key: None, what }));
        }
    }

    /// Records the events of a channel's turn.
    pub(super) fn record_turn(&mut self, station: usize) {
        let Some(recording) = &mut self.recording else { return };
        let node = NodeId((station / self.layout.channels()) as u16);
        let events = self.stations[station].engine.take_events();
        recording.events.extend(events.map(|event| (node, event)));
        if self.queue.now_ns() >= recording.due_ns {
            self.record_bytes();
        }
    }

    /// A frame with so many charged bytes enters a connection.
    pub(super) fn record_frame(&mut self, link: usize, bytes: u64) {
        if let Some(recording) = &mut self.recording {
            recording.sent[link] += bytes;
        }
    }

    fn record_bytes(&mut self) {
        let now_ns = self.queue.now_ns();
        let Some(mut recording) = self.recording.take() else { return };
        for (link, bytes) in recording.sent.iter_mut().enumerate().filter(|(_, bytes)| **bytes > 0) {
            let (from, to) = self.ends(link);
            let what = What::Sent { to: NodeId(to as u16), bytes: std::mem::take(bytes) };
            let channel = ChannelId((link % self.layout.channels()) as u16);
            let event = Event { at: Tick(now_ns / 1000), channel, key: None, what };
            recording.events.push((NodeId(from as u16), event));
        }
        recording.due_ns = now_ns + SENT_EVERY_NS;
        self.recording = Some(recording);
    }
}
