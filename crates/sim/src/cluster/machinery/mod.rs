//! The machinery of a cluster: threads, queues and connections, which execute what follows from the calls of
//! workers, event by event.
//!
//! Each part owns its state; the machinery connects them:
//!
//! | part | owns |
//! | --- | --- |
//! | [`Stations`] | channels: inboxes, received frames, the input that each thread works on, timers, looks |
//! | [`Workers`] | workers: their operations, the queues from and to channels, busy time |
//! | [`Connections`] | links, NICs, frames in flight, traffic |
//! | [`Processors`] | cores, and the pace of nodes |
//! | [`Agenda`] | events to come, virtual time, randomness, the record of the run |
//! | [`Recorder`] | events of parameters that are traced |

mod deliveries;
mod turns;

use super::agenda::Agenda;
use super::config::ClusterConfig;
use super::connections::{Connections, Received};
use super::event::{Event, Happened};
use super::probe::{Nodes, Probe, Seen};
use super::processors::Processors;
use super::recorder::Recorder;
use super::station::{InboxItem, Station};
use super::stations::Stations;
use super::worker::WorkerState;
use super::workers::Workers;
use crate::delays::Delays;
use crate::invariants::{Finding, Progress, Violation};
use crate::reach::Reach;
use intendant_core::{Element, Layout, NodeId};
use intendant_engine::{Action, LocalAccess, Shared};
use std::sync::Arc;

/// The threads, queues and connections of a cluster.
pub(super) struct Machinery<E, P> {
    pub(super) layout: Arc<Layout>,
    pub(super) delays: Delays,
    pub(super) access: LocalAccess,
    pub(super) nodes: Vec<Arc<Shared<E>>>,
    pub(super) stations: Stations<E>,
    pub(super) workers: Workers<E>,
    pub(super) connections: Connections,
    pub(super) processors: Processors,
    pub(super) agenda: Agenda,
    /// `None` if nothing is traced.
    pub(super) recorder: Option<Recorder>,
    pub(super) reach: Reach,
    pub(super) probe: P,
    /// Decisions of nodes (relocate, replicate) that no channel has handled yet.
    pub(super) pending_decisions: usize,
    /// The cluster is quiescent, and no worker has continued since.
    pub(super) rests: bool,
    progress: Progress,
    /// Mean bytes per value.
    value_bytes_mean: usize,
    actions: Vec<Action>,
}

impl<E: Element, P: Probe<E>> Machinery<E, P> {
    /// The machinery of `nodes`, in which nothing has happened yet.
    pub(super) fn new(
        config: &ClusterConfig<E>,
        nodes: Vec<Arc<Shared<E>>>,
        mut agenda: Agenda,
        probe: P,
    ) -> Self {
        let ClusterConfig { layout, delays, faults, workers, .. } = config;
        let (workers, channels) = (*workers, layout.channels());
        let looks = delays.machine.look_timer(workers + channels);
        let (mut stations, mut states) = (Vec::new(), Vec::new());
        for node in &nodes {
            stations.extend((0..channels).map(|channel| Station::new(channel, node, looks)));
            states.extend((0..workers).map(|worker| WorkerState::new(worker, layout)));
        }
        let mut stations = Stations::new(stations, channels);
        (0..stations.all().len()).for_each(|station| stations.set_timer(station, &mut agenda));
        let ends = (nodes.len(), channels);
        Self {
            connections: Connections::new(delays, faults.clone(), ends, config.packing, size_of::<E>()),
            processors: Processors::new(&delays.machine, faults.clone(), nodes.len(), workers, channels),
            delays: *delays,
            access: config.access,
            nodes,
            stations,
            workers: Workers::new(states, workers),
            agenda,
            recorder: None,
            reach: Reach::default(),
            probe,
            pending_decisions: 0,
            rests: false,
            progress: Progress::new(config.events_max),
            value_bytes_mean: (layout.elements() / layout.keys()) as usize * size_of::<E>(),
            actions: Vec::new(),
            layout: Arc::clone(layout),
        }
    }

    /// Adds the current time and event number to a finding.
    pub(super) fn violation(&self, finding: Finding) -> Violation {
        self.agenda.violation(finding)
    }

    /// The observer, and what it sees.
    pub(super) fn observed(&mut self) -> (&mut P, Seen<'_, E>) {
        let Self { probe, nodes, reach, rests, stations, workers, .. } = self;
        let (stations, workers) = (stations.all(), workers.all());
        (probe, Seen { nodes: Nodes::new(nodes), reach, rests: *rests, stations, workers })
    }

    /// Executes the next event, be it a timer without effect; `None` if there is none.
    ///
    /// # Errors
    /// If an invariant is broken, or an engine refuses what a peer sent.
    pub(super) fn step(&mut self) -> Result<Option<Happened>, Violation> {
        let Some(event) = self.agenda.next() else { return Ok(None) };
        self.stations.note_event(event, self.agenda.now_ns());
        let ticks = self.stations.ticks();
        let checked = self.progress.step(self.agenda.events() - ticks, ticks).and_then(|()| {
            let (probe, mut seen) = self.observed();
            probe.event(&mut seen)
        });
        checked.map_err(|finding| self.violation(finding))?;
        match event {
            Event::Awake { worker } => return Ok(Some(Happened::Awake(worker as usize))),
            Event::Loaded { worker } => return Ok(Some(Happened::Loaded(worker as usize))),
            Event::Turn { station } => return self.turn(station as usize).map(Some),
            Event::Intake { worker } => return Ok(Some(self.intake(worker as usize))),
            Event::Enqueue { worker, channel } => self.enqueue(worker as usize, channel as usize)?,
            Event::Front { link } => {
                let received = self.connections.front(link as usize, &mut self.agenda);
                if let Some(received) = received.map_err(|finding| self.violation(finding))? {
                    self.receive(received)?;
                }
            }
            Event::Arrive { link } => {
                let received = self.connections.arrive(link as usize);
                self.receive(received.map_err(|finding| self.violation(finding))?)?;
            }
            Event::Deliver { worker, channel } => self.deliver(worker as usize, channel as usize),
            // The channel answers after the inputs before it, with its replicas synchronised.
            Event::Report { station } => self.put(station as usize, InboxItem::Report)?,
            Event::Woken { station } => self.put(station as usize, InboxItem::Wake)?,
            Event::Due { station } => {
                if self.stations.expire(station as usize, &mut self.agenda) {
                    self.begin_turn(station as usize)?;
                }
            }
        }
        Ok(Some(Happened::Internal))
    }

    /// An item reaches the inbox of a channel.
    fn put(&mut self, station: usize, item: InboxItem) -> Result<(), Violation> {
        let now_ns = self.agenda.now_ns();
        self.stations[station].inbox.push_back((now_ns, item));
        self.begin_turn(station)
    }

    /// A frame is received.
    fn receive(&mut self, received: Received) -> Result<(), Violation> {
        let Received { from, to, channel, frame } = received;
        let station = self.stations.number(to, channel);
        self.stations[station].receive(from, self.agenda.now_ns(), frame);
        self.begin_turn(station)
    }

    /// Records the events of a channel's turn, if they are traced.
    fn record_turn(&mut self, station: usize) {
        let Some(recorder) = &mut self.recorder else { return };
        let node = NodeId(self.stations.place(station).0 as u16);
        recorder.add(node, self.stations[station].engine.take_events());
        if recorder.is_due(self.agenda.now_ns()) {
            self.record_sent();
        }
    }

    /// Records how many bytes each node has sent to each, if it is traced.
    pub(super) fn record_sent(&mut self) {
        let Self { recorder, connections, agenda, .. } = self;
        if let Some(recorder) = recorder {
            recorder.record_sent(agenda.now_ns(), |link| connections.ends(link));
        }
    }
}
