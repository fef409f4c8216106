//! Traces: what happens to parameters, in virtual time.

use super::recorder::Recorder;
use super::{Cluster, Probe};
use intendant_core::{Element, NodeId};
use intendant_engine::Shared;
use intendant_trace::{Event, Filter, Header, What};
use std::sync::Arc;

impl<E: Element, P: Probe<E>> Cluster<E, P> {
    /// Records from now on what happens to the keys that `filter` accepts. Returns the headers of the nodes'
    /// traces.
    #[inline(never)]
    pub fn record(&mut self, filter: &Filter) -> Vec<Header> {
        let stations = self.machinery.stations.all_mut();
        stations.iter_mut().for_each(|station| station.engine.trace(filter.clone()));
        self.machinery.recorder = Some(Recorder::new(self.machinery.connections.count()));
        let header = |node: &Arc<Shared<E>>| Header { filter: filter.to_string(), ..node.trace_header() };
        self.nodes().iter().map(header).collect()
    }

    /// What was recorded since the last call: nodes and their events, in the order of time.
    #[inline(never)]
    pub fn take_events(&mut self) -> Vec<(NodeId, Event)> {
        self.machinery.record_sent();
        self.machinery.recorder.as_mut().map_or_else(Vec::new, Recorder::take)
    }

    /// Whether something is recorded, and enough of it to be taken.
    pub fn has_events(&self) -> bool {
        self.machinery.recorder.as_ref().is_some_and(Recorder::is_full)
    }

    /// Records what happens at a node, to no key.
    pub fn note_event(&mut self, node: NodeId, what: What) {
        let at = self.machinery.agenda.now();
        if let Some(recorder) = &mut self.machinery.recorder {
            recorder.note(at, node, what);
        }
    }
}
