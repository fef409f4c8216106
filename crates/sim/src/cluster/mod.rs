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

mod calls;
mod config;
mod event;
mod events;
mod explain;
mod instances;
mod intents;
mod links;
mod looks;
mod messages;
mod probe;
mod recorded;
mod recording;
mod replicas;
mod rest;
mod station;
mod transit;
mod worker;

pub use calls::{CallOutcome, Wait};
pub use config::{ClusterConfig, Hosts};
pub use event::Happened;
pub use intents::Caller;
pub use probe::{Call, Probe, Seen};

use crate::core::Core;
use crate::delays::Delays;
use crate::dice::Dice;
use crate::facility::{Facility, Load};
use crate::faults::Faults;
use crate::invariants::{Bounded, Fifo, Finding, Progress, Violation};
use crate::lane::Lane;
use crate::machine::Sharing;
use crate::network::Nic;
use crate::queue::Queue;
use crate::reach::Reach;
use crate::trace::Trace;
use event::Event;
use intendant_core::{ChannelId, Element, Key, Layout, NodeId, WorkerId, random};
use intendant_engine::{
    AccessStats, Action, Channel, Local, LocalAccess, ManagementStats, NetworkStats, Shared, SharedConfig,
    Windows,
};
use intendant_sampling::{NearKeys, Sampler};
use intendant_segment::{Segment, View};
use intendant_techniques::Policy;
use links::Link;
use recorded::Recording;
use station::{Station, Timer};
use std::collections::VecDeque;
use std::sync::Arc;
use worker::WorkerState;

/// A cluster in virtual time.
pub struct Cluster<E, P = ()> {
    layout: Arc<Layout>,
    workers_per_node: usize,
    delays: Delays,
    faults: Faults,
    access: LocalAccess,
    policy: Policy,
    sharing: Sharing,
    /// The cores that nodes share; none if they do not.
    cores: Vec<Core>,
    nodes: Vec<Arc<Shared<E>>>,
    nics: Vec<Nic>,
    /// By node, then channel.
    stations: Vec<Station<E>>,
    /// By node, then worker.
    worker_states: Vec<WorkerState<E>>,
    /// By sender, then receiver, then channel.
    links: Vec<Link>,
    queue: Queue<Event>,
    dice: Dice,
    trace: Trace,
    recording: Option<Recording>,
    reach: Reach,
    probe: P,
    fifo: Fifo,
    bounded: Bounded,
    progress: Progress,
    /// Decisions of nodes (relocate, replicate) that no channel has handled yet.
    pending_decisions: usize,
    /// The cluster is quiescent, and no worker has continued since.
    resting: bool,
    /// Pending timer events.
    timers: usize,
    /// Timer events and ticks that have happened.
    ticks: u64,
    /// Channels that are handling a tick.
    ticking: usize,
    /// Timer events without effect since the last activity, and the time of that activity.
    idle_timers: usize,
    last_activity_ns: u64,
    /// Mean bytes per value.
    value_bytes_mean: usize,
    actions: Vec<Action>,
    traffic: NetworkStats,
    sent_value_bytes: u64,
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
        let hosts = config.windows();
        let ClusterConfig { layout, init, storage, access, policy, replication, workers, .. } = config;
        let mut dice = Dice::new(random::stream(config.seed, &[1]));
        let (nodes, channels) = (layout.nodes(), layout.channels());
        let shared: Vec<Shared<E>> = (0..nodes)
            .map(|node| {
                let (layout, init) = (Arc::clone(&layout), Arc::clone(&init));
                let (node, mut replication) = (NodeId(node as u16), replication.clone());
                replication.portion_bytes = config.delays.charge.uncharged(replication.portion_bytes);
                Shared::new(SharedConfig {
                    node,
                    layout,
                    init,
                    storage,
                    access,
                    policy,
                    replication,
                    workers,
                })
            })
            .collect();
        let shared: Vec<_> = match hosts {
            Some(hosts) => open_windows(&layout, hosts, shared).into_iter().map(Arc::new).collect(),
            None => shared.into_iter().map(Arc::new).collect(),
        };
        if config.stale_hints && nodes > 1 {
            plant_hints(&layout, &shared, &mut dice);
        }
        let looks = config.delays.machine.look_timer(workers + channels);
        let mut stations = Vec::with_capacity(nodes * channels);
        let mut worker_states = Vec::with_capacity(nodes * workers);
        for node in &shared {
            stations.extend((0..channels).map(|channel| Station {
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
            }));
            worker_states.extend((0..workers).map(|worker| WorkerState {
                local: Local::new(WorkerId(worker as u16), &layout),
                to_channels: (0..channels).map(|_| Lane::default()).collect(),
                from_channels: (0..channels).map(|_| Lane::default()).collect(),
                queue: VecDeque::new(),
                sink: None,
                free_ns: 0,
                busy_ns: 0,
                charged_channel_ns: 0,
            }));
        }
        let links = nodes * nodes * channels;
        let cores = match config.delays.machine.nodes_per_core {
            0 => 0,
            share => nodes.div_ceil(share),
        };
        let mut cluster = Self {
            workers_per_node: workers,
            sharing: config.delays.machine.sharing(workers, channels),
            cores: vec![Core::default(); cores],
            delays: config.delays,
            faults: config.faults,
            access,
            policy,
            nics: vec![Nic::default(); nodes],
            nodes: shared,
            worker_states,
            links: (0..links).map(|_| Link::new(config.packing, size_of::<E>())).collect(),
            queue: Queue::new(),
            dice,
            trace: Trace::new(config.trace),
            recording: None,
            reach: Reach::default(),
            probe,
            fifo: Fifo::new(links),
            bounded: Bounded::new(config.outstanding_bytes_max),
            progress: Progress::new(config.events_max),
            stations,
            value_bytes_mean: (layout.elements() / layout.keys()) as usize * size_of::<E>(),
            layout,
            pending_decisions: 0,
            resting: false,
            timers: 0,
            ticks: 0,
            ticking: 0,
            idle_timers: 0,
            last_activity_ns: 0,
            actions: Vec::new(),
            traffic: NetworkStats::default(),
            sent_value_bytes: 0,
        };
        (0..cluster.stations.len()).for_each(|station| cluster.set_timer(station));
        cluster
    }

    /// Keys, nodes, channels.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Number of workers of all nodes. Workers are numbered node by node.
    pub fn workers(&self) -> usize {
        self.worker_states.len()
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Number of keys whose location a node stores.
    pub fn locations(&self, node: usize) -> u64 {
        self.nodes[node].locations()
    }

    /// Whether a node holds a copy of `key`, so that an access needs no message.
    #[inline(never)]
    pub fn is_local(&self, node: usize, key: Key) -> bool {
        self.nodes[node].is_local(key)
    }

    /// A node's part of `key`: see [`Shared::part`].
    #[inline(never)]
    pub fn part(&self, node: usize, key: Key) -> u32 {
        self.nodes[node].part(key)
    }

    /// A node's parts of `keys`: see [`Shared::part`].
    #[inline(never)]
    pub fn find_parts(&self, node: usize, keys: &[Key], parts: &mut [u32]) {
        let node = &self.nodes[node];
        keys.iter().for_each(|key| node.prefetch_part(*key));
        keys.iter().zip(parts).for_each(|(key, part)| *part = node.part(*key));
    }

    /// All nodes keep the keys of which they have parts, for the distributions of `sampler` that are drawn
    /// locally: see [`Shared::keep_near`].
    pub fn keep_near(&self, sampler: &Sampler) {
        self.nodes.iter().for_each(|node| node.keep_near(sampler));
    }

    /// The keys that a node's samplers may draw: see [`Shared::near`].
    pub fn near(&self, node: usize) -> Option<&NearKeys> {
        self.nodes[node].near()
    }

    /// The virtual time.
    pub fn now_ns(&self) -> u64 {
        self.queue.now_ns()
    }

    /// Number of events so far.
    pub fn events(&self) -> u64 {
        self.trace.events()
    }

    /// Hash of all events and messages so far. Runs with the same seed have the same hash.
    pub fn hash(&self) -> u64 {
        self.trace.hash()
    }

    /// Takes the readable trace so far; empty if it is disabled.
    pub fn take_trace(&mut self) -> Vec<String> {
        self.trace.take_lines()
    }

    /// What all nodes have sent so far, in charged bytes.
    pub fn traffic(&self) -> NetworkStats {
        self.traffic
    }

    /// Bytes of the elements in these messages, not charged with any factor.
    pub fn sent_value_bytes(&self) -> u64 {
        self.sent_value_bytes
    }

    /// Access counters of a worker.
    #[inline(never)]
    pub fn accesses(&self, worker: usize) -> AccessStats {
        self.worker_states[worker].local.stats()
    }

    /// Management counters of all nodes.
    #[inline(never)]
    pub fn management(&self) -> ManagementStats {
        let mut sum = ManagementStats::default();
        self.stations.iter().for_each(|station| sum.merge(station.engine.management()));
        sum
    }

    /// Load of workers, channels and NICs so far.
    #[inline(never)]
    pub fn load(&self) -> ClusterLoad {
        let mut load = ClusterLoad::default();
        load.workers.busy_ns = self.worker_states.iter().map(|state| state.busy_ns).sum();
        self.stations.iter().for_each(|station| load.channels.merge(&station.thread.load()));
        for nic in &self.nics {
            load.sending.merge(&nic.sending.load());
            load.receiving.merge(&nic.receiving.load());
        }
        load
    }

    /// The values of all keys as their owners hold them, concatenated.
    ///
    /// # Panics
    /// If a key has no owner, which the invariants exclude.
    #[inline(never)]
    pub fn values(&self) -> Vec<E> {
        let mut values = Vec::with_capacity(self.layout.elements() as usize);
        for key in (0..self.layout.keys()).map(Key) {
            let owned = self.nodes.iter().any(|node| node.peek_into(key, &mut values));
            assert!(owned, "every key has an owner");
        }
        values
    }

    /// The reach markers.
    pub fn reach(&mut self) -> &mut Reach {
        &mut self.reach
    }

    /// Adds a line to the readable trace.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        self.trace.line(self.queue.now_ns(), text);
    }

    /// Adds the current time and event number to a finding.
    #[inline(never)]
    pub fn violation(&self, (check, what): Finding) -> Violation {
        Violation { check, at_ns: self.queue.now_ns(), event: self.trace.events(), what }
    }

    /// The violation that no event is left, although `who` waits.
    #[inline(never)]
    pub fn stuck(&self, who: &str) -> Violation {
        self.violation(Progress::stuck(who))
    }

    /// The observer.
    pub fn probe(&self) -> &P {
        &self.probe
    }

    /// The observer, and what it sees.
    fn observed(&mut self) -> (&mut P, Seen<'_, E>) {
        let Self { probe, nodes, reach, resting, stations, worker_states, .. } = self;
        (probe, Seen { nodes, reach, rests: *resting, stations, workers: worker_states })
    }

    fn node_of(&self, worker: usize) -> usize {
        worker / self.workers_per_node
    }

    fn station(&self, node: usize, channel: usize) -> usize {
        node * self.layout.channels() + channel
    }

    fn link(&self, from: usize, to: usize, channel: usize) -> usize {
        (from * self.nodes.len() + to) * self.layout.channels() + channel
    }

    /// Sender and receiver of a connection.
    fn ends(&self, link: usize) -> (usize, usize) {
        let pair = link / self.layout.channels();
        (pair / self.nodes.len(), pair % self.nodes.len())
    }
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
