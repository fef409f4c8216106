//! A whole cluster in one thread: the engines of all nodes, the queues between their threads, and the
//! network, advanced event by event.
//!
//! [`Cluster`] knows engines and messages, but no worker programs. A program (`intendant-checkers`,
//! [`crate::run_task`]) issues calls such as [`Cluster::pull`] on behalf of workers, and then calls
//! [`Cluster::next`] once per event. Work that a real thread does without interruption is split into several
//! events wherever another thread could interleave:
//!
//! ```text
//! call (fast path) → submission reaches the inbox → channel takes it → frame reaches the receiver's NIC →
//! frame is received → channel takes it → … → completion reaches the worker's queue → worker takes it
//! ```
//!
//! Work takes time ([`crate::Machine`], [`crate::Network`]). A channel's thread handles one input at a time.
//! A NIC sends one frame and receives one frame at a time. A worker makes its next call when the duration of
//! its previous call is over.

mod agenda;
mod calls;
mod clocks;
mod config;
mod connections;
mod event;
mod instances;
mod intents;
mod machinery;
mod messages;
mod probe;
mod processors;
mod recorder;
mod recording;
mod rest;
mod station;
mod stations;
mod worker;
mod workers;

pub use calls::{CallOutcome, Wait};
pub use config::{ClusterConfig, Hosts};
pub use event::Happened;
pub use intents::Caller;
pub use probe::{Call, Nodes, Probe, Seen};

use crate::dice::Dice;
use crate::facility::Load;
use crate::invariants::{Bounded, Finding, Progress, Violation};
use crate::reach::Reach;
use agenda::Agenda;
use event::Event;
use intendant_core::{Element, Key, Layout, NodeId, random};
use intendant_engine::{Explanation, Local, ManagementStats, NetworkStats, Shared, SharedConfig, Windows};
use intendant_segment::{Segment, View};
use machinery::Machinery;
use std::sync::Arc;

/// A cluster in virtual time, for programs that make the calls of its workers. The probe `P` observes it.
pub struct Cluster<E, P = ()> {
    /// Executes what follows from calls.
    machinery: Machinery<E, P>,
    bounded: Bounded,
}

impl<E: Element> Cluster<E> {
    /// A cluster at virtual time 0, without observer.
    #[must_use]
    #[inline(never)]
    pub fn new(config: ClusterConfig<E>) -> Self {
        Self::with_probe(config, ())
    }
}

impl<E: Element, P: Probe<E>> Cluster<E, P> {
    /// A cluster at virtual time 0 that `probe` observes.
    #[must_use]
    #[inline(never)]
    pub fn with_probe(config: ClusterConfig<E>, probe: P) -> Self {
        let mut dice = Dice::new(random::stream(config.seed, &[1]));
        let shared = (0..config.layout.nodes()).map(|node| open_node(&config, NodeId(node as u16))).collect();
        let nodes: Vec<_> = match config.windows() {
            Some(hosts) => open_windows(&config.layout, hosts, shared),
            None => shared,
        };
        let nodes: Vec<_> = nodes.into_iter().map(Arc::new).collect();
        if config.stale_hints && nodes.len() > 1 {
            plant_hints(&config.layout, &nodes, &mut dice);
        }
        let agenda = Agenda::new(dice, config.trace);
        Self {
            bounded: Bounded::new(config.outstanding_bytes_max),
            machinery: Machinery::new(&config, nodes, agenda, probe),
        }
    }

    /// Executes the next event and checks the invariants. `None` if only timers without effect are left.
    ///
    /// # Errors
    /// If an invariant is broken, or an engine refuses what a peer sent.
    #[expect(clippy::should_implement_trait, reason = "a step can fail, and the caller acts between steps")]
    #[inline(never)]
    pub fn next(&mut self) -> Result<Option<Happened>, Violation> {
        let Machinery { stations, agenda, .. } = &self.machinery;
        if stations.only_timers_are_left(agenda.len()) { Ok(None) } else { self.machinery.step() }
    }

    /// The workers whose programs or loaders (`true`) continue in the next events, as far as the queue tells
    /// at once: [`Queue::upcoming`](crate::queue::Queue::upcoming). `None` for other events.
    pub(crate) fn upcoming(&self) -> impl Iterator<Item = Option<(usize, bool)>> {
        self.machinery.agenda.upcoming().map(|event| match *event {
            Event::Awake { worker } => Some((worker as usize, false)),
            Event::Loaded { worker } => Some((worker as usize, true)),
            Event::Enqueue { .. }
            | Event::Front { .. }
            | Event::Arrive { .. }
            | Event::Turn { .. }
            | Event::Deliver { .. }
            | Event::Intake { .. }
            | Event::Report { .. }
            | Event::Woken { .. }
            | Event::Due { .. } => None,
        })
    }

    /// Keys, nodes, channels.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.machinery.layout
    }

    /// The nodes, for queries. Calls of workers are methods of the cluster: they take time, and something
    /// follows from them.
    pub fn nodes(&self) -> &[Arc<Shared<E>>] {
        &self.machinery.nodes
    }

    /// Number of workers of all nodes. Workers are numbered node by node.
    pub fn workers(&self) -> usize {
        self.machinery.workers.all().len()
    }

    /// The operations and counters of a worker.
    pub fn local(&self, worker: usize) -> &Local<E> {
        &self.machinery.workers[worker].local
    }

    /// Why `key` is where it is, from the view of `node`.
    #[inline(never)]
    pub fn explain(&self, node: usize, key: Key) -> Explanation {
        let stations = &self.machinery.stations;
        let station = stations.number(node, self.layout().channel(key).index());
        stations[station].engine.explain(key)
    }

    /// The observer.
    pub fn probe(&self) -> &P {
        &self.machinery.probe
    }

    /// The virtual time.
    pub fn now_ns(&self) -> u64 {
        self.machinery.agenda.now_ns()
    }

    /// Time of the last event other than a timer without effect.
    pub fn last_activity_ns(&self) -> u64 {
        self.machinery.stations.last_activity_ns()
    }

    /// Number of events so far.
    pub fn events(&self) -> u64 {
        self.machinery.agenda.events()
    }

    /// Hash of all events and messages so far. Runs with the same seed have the same hash.
    pub fn hash(&self) -> u64 {
        self.machinery.agenda.hash()
    }

    /// Takes the readable trace so far; empty if it is disabled.
    pub fn take_trace(&mut self) -> Vec<String> {
        self.machinery.agenda.take_notes()
    }

    /// What all nodes have sent so far, in charged bytes.
    pub fn traffic(&self) -> NetworkStats {
        self.machinery.connections.traffic()
    }

    /// Bytes of the elements in these messages, not charged with any factor.
    pub fn sent_value_bytes(&self) -> u64 {
        self.machinery.connections.sent_value_bytes()
    }

    /// Management counters of all nodes.
    #[inline(never)]
    pub fn management(&self) -> ManagementStats {
        self.machinery.stations.management()
    }

    /// Load of workers, channels and NICs so far.
    #[inline(never)]
    pub fn load(&self) -> ClusterLoad {
        let Machinery { workers, stations, connections, .. } = &self.machinery;
        let busy_ns = workers.all().iter().map(|state| state.busy_ns).sum();
        let (sending, receiving) = connections.load();
        let workers = Load { busy_ns, ..Load::default() };
        ClusterLoad { workers, channels: stations.load(), sending, receiving }
    }

    /// The values of all keys as their owners hold them, concatenated.
    ///
    /// # Panics
    /// If a key has no owner, which the invariants exclude.
    #[inline(never)]
    pub fn values(&self) -> Vec<E> {
        let mut values = Vec::with_capacity(self.layout().elements() as usize);
        for key in (0..self.layout().keys()).map(Key) {
            let owned = self.nodes().iter().any(|node| node.inspect().value_into(key, &mut values));
            assert!(owned, "every key has an owner");
        }
        values
    }

    /// The reach markers.
    pub fn reach(&mut self) -> &mut Reach {
        &mut self.machinery.reach
    }

    /// Adds a line to the readable trace.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        self.machinery.agenda.note(text);
    }

    /// Adds the current time and event number to a finding.
    #[inline(never)]
    pub fn violation(&self, finding: Finding) -> Violation {
        self.machinery.violation(finding)
    }

    /// The violation that no event is left, although `who` waits.
    #[inline(never)]
    pub fn stuck(&self, who: &str) -> Violation {
        self.violation(Progress::stuck(who))
    }
}

/// The state of a node.
fn open_node<E: Element>(config: &ClusterConfig<E>, node: NodeId) -> Shared<E> {
    let mut replication = config.replication.clone();
    replication.portion_bytes = config.delays.charge.uncharged(replication.portion_bytes);
    Shared::new(SharedConfig {
        node,
        layout: Arc::clone(&config.layout),
        init: Arc::clone(&config.init),
        storage: config.storage,
        access: config.access,
        policy: config.policy,
        replication,
        workers: config.workers,
    })
}

intendant_core::statistics! {
    /// Load of workers, channels and NICs, summed over all nodes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    ClusterLoad {
        /// Busy time of workers with calls and arithmetic. They have no queue.
        workers: Load,
        /// The channels' threads, which serve inputs.
        channels: Load,
        /// The sending halves of NICs, which serve frames.
        sending: Load,
        /// The receiving halves of NICs.
        receiving: Load,
    }
}

/// Opens windows between the nodes of each host.
fn open_windows<E: Element>(layout: &Arc<Layout>, hosts: Hosts, nodes: Vec<Shared<E>>) -> Vec<Shared<E>> {
    let words = Windows::words::<E>(layout, hosts.windows);
    let segment =
        |_| Segment::new(words).unwrap_or_else(|error| panic!("windows of simulated nodes: {error}"));
    let segments: Vec<Segment> = (0..nodes.len()).map(segment).collect();
    let opened = nodes.into_iter().enumerate().map(|(at, node)| {
        let is_near = |other: usize| other != at && other / hosts.nodes == at / hosts.nodes;
        let others = segments.iter().enumerate().map(|(other, it)| is_near(other).then(|| View::of(it)));
        let windows =
            Windows::new::<E>(layout, hosts.windows, node.node(), segments[at].clone(), others.collect());
        node.with_windows(windows.unwrap_or_else(|error| panic!("{error}")))
    });
    opened.collect()
}

/// Plants a random cached location for half of the keys at each node. Most are wrong. They are never
/// corrected, because their counter passes for newer than the truth; so a node's requests for a key always
/// take the same way.
fn plant_hints<E: Element>(layout: &Layout, nodes: &[Arc<Shared<E>>], dice: &mut Dice) {
    for node in nodes {
        for key in (0..layout.keys()).map(Key) {
            if dice.once_in(2) {
                node.learn(key, NodeId(dice.below(nodes.len() as u64) as u16), 1);
            }
        }
    }
}
