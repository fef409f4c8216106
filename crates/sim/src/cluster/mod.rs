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
mod events;
mod explain;
mod instances;
mod intents;
mod looks;
mod messages;
mod recorded;
mod recording;
mod replicas;
mod rest;
mod transit;
mod watch;
mod watch_replicas;
mod watched;

pub use calls::{CallOutcome, Wait};
pub use intents::Caller;

use crate::core::Core;
use crate::delays::Delays;
use crate::dice::Dice;
use crate::facility::{Facility, Load};
use crate::faults::Faults;
use crate::invariants::{
    Bounded, Fifo, Finding, Hops, Intents, Invariants, Knowledge, Ledger, Merged, Owners, Progress, Queued,
    Replies, Rounds, Violation,
};
use crate::lane::Lane;
use crate::machine::Sharing;
use crate::network::Nic;
use crate::queue::Queue;
use crate::reach::Reach;
use crate::trace::Trace;
use bytes::Bytes;
use intendant_core::{ChannelId, Element, Initialiser, Key, Layout, NodeId, WorkerId, random};
use intendant_engine::{
    AccessStats, Action, Channel, ChannelReport, Completion, Input, Local, LocalAccess, LookTimer,
    ManagementStats, NetworkStats, ReplicationConfig, Shared, SharedConfig, SnapshotAsk, Storage, Submission,
    WindowConfig, Windows,
};
use intendant_sampling::{NearKeys, Sampler};
use intendant_segment::{Segment, View};
use intendant_techniques::clocks::NodeClock;
use intendant_techniques::{KeyTechnique, Policy, StaticReplicas};
use intendant_wire::{OpId, Packer, Packing, SnapshotPart, Unpacker};
use recorded::Recording;
use std::collections::VecDeque;
use std::sync::Arc;
use watched::Watch;

/// Configuration of a cluster. The layout holds the numbers of nodes and channels.
#[derive(Clone)]
pub struct ClusterConfig<E> {
    /// Keys, nodes, channels.
    pub layout: Arc<Layout>,
    /// Initial values.
    pub init: Initialiser<E>,
    /// Dense or sparse stores.
    pub storage: Storage,
    /// How workers access values of their node.
    pub access: LocalAccess,
    /// The policy of the technique.
    pub policy: Policy,
    /// Configuration of replicas; ignored by techniques without replicas.
    pub replication: ReplicationConfig,
    /// Which nodes read in each other's windows; `None` if none does. Ignored by techniques without windows.
    pub hosts: Option<Hosts>,
    /// Workers per node.
    pub workers: usize,
    /// Upper bound of the value bytes that a worker may have outstanding.
    pub outstanding_bytes_max: usize,
    /// Whether nodes start with cached locations that are mostly wrong.
    pub stale_hints: bool,
    /// Durations of all steps.
    pub delays: Delays,
    /// Faults and their intervals.
    pub faults: Faults,
    /// What is checked.
    pub checks: Checks,
    /// Upper bound of events; a run that exceeds it fails.
    pub events_max: u64,
    /// How nodes shorten the messages that they send.
    pub packing: Packing,
    /// Seed of all random choices.
    pub seed: u64,
    /// Whether to keep a readable trace.
    pub trace: bool,
}

/// Hosts whose nodes read values in each other's windows, at the moment of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// Nodes per host. Consecutive nodes share one.
    pub nodes: usize,
    /// The size of windows and loans.
    pub windows: WindowConfig,
}

/// What is checked beside what engines check themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// All invariants, for runs that search for defects: those on messages and calls when the message or call
    /// happens, those on the state of nodes at every event.
    EveryStep,
    /// What costs next to nothing, for runs that measure: a cluster that claims to be quiescent has nothing
    /// in flight, snapshots are complete, connections keep order, workers respect their limit of outstanding
    /// bytes, and the run ends. Most reach markers are not set, and [`Cluster::owner`] and [`Cluster::is_at`]
    /// know no moves.
    Quiet,
}

/// An event of the event queue. Its content waits in a [`Lane`], which keeps order by construction.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A worker's program continues.
    Awake { worker: u32 },
    /// A worker's loader continues.
    Loaded { worker: u32 },
    /// An item of a worker reaches the inbox of a channel.
    Enqueue { worker: u32, channel: u32 },
    /// The first byte of a frame reaches the receiver's NIC.
    Front { link: u32 },
    /// The last byte of a frame is received.
    Arrive { link: u32 },
    /// A channel has finished its current input.
    Turn { station: u32 },
    /// A completion reaches the queue of a worker.
    Deliver { worker: u32, channel: u32 },
    /// A worker takes a completion from its queue.
    Intake { worker: u32 },
    /// A request for a report reaches a channel's inbox.
    Report { station: u32 },
    /// A wake-up reaches a channel's inbox.
    Woken { station: u32 },
    /// A channel's timer expires.
    Due { station: u32 },
}

/// The outcome of an event for programs.
#[derive(Debug)]
pub enum Happened {
    /// Nothing: the event was internal to the cluster.
    Internal,
    /// A wake-up that [`Cluster::wake`] scheduled for this worker.
    Awake(usize),
    /// A wake-up that [`Cluster::wake_loader`] scheduled for this worker's loader.
    Loaded(usize),
    /// A worker took the completion of a part of an operation.
    Answered {
        /// The worker.
        worker: usize,
        /// Its operation.
        op: OpId,
        /// Whether the whole operation is done.
        done: bool,
    },
    /// A worker received a part of a snapshot.
    Part {
        /// The worker.
        worker: usize,
        /// The part.
        part: SnapshotPart,
    },
    /// A channel answered [`Cluster::ask_reports`].
    Reported(ChannelReport),
}

/// An item that a worker or the simulator puts into a channel's inbox.
enum InboxItem {
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

/// What a channel puts into a worker's queue.
enum Delivery {
    Access(Completion),
    Part(SnapshotPart),
}

/// A worker, and the queues between it and the channels of its node.
struct WorkerState<E> {
    local: Local<E>,
    /// To each channel.
    to_channels: Vec<Lane<InboxItem>>,
    /// From each channel.
    from_channels: Vec<Lane<Delivery>>,
    queue: VecDeque<Delivery>,
    /// The pull that the worker blocks on, and the buffer for its values.
    sink: Option<(OpId, Vec<E>)>,
    /// Time at which the worker finishes its work so far.
    free_ns: u64,
    /// Busy time so far, without waiting.
    busy_ns: u64,
    /// Busy time of the node's channels that has already been charged to this worker as delay.
    charged_channel_ns: u64,
}

/// A channel of a node with its waiting inputs. Stations are numbered by node, then channel.
struct Station<E> {
    engine: Channel<E>,
    /// Per item: arrival time and sending worker.
    inbox: VecDeque<(u64, usize, InboxItem)>,
    /// Received frames with their arrival times, by sending node.
    received: Vec<VecDeque<(u64, Bytes)>>,
    /// The nodes of which frames wait in `received`, in ascending order.
    senders: Vec<u16>,
    thread: Facility,
    /// The input that the thread works on.
    current: Option<Input>,
    timer: Timer,
    /// When the thread looks for work that no input announces, as threads of nodes do.
    looks: LookTimer,
    /// The part of the thread's busy time that `looks` knows, in µs.
    known_busy: u64,
    /// Messages sent.
    sent: u64,
}

impl<E> Station<E> {
    /// A frame of node `from` is received.
    fn receive(&mut self, from: usize, at_ns: u64, frame: Bytes) {
        let received = &mut self.received[from];
        if received.is_empty() {
            let from = from as u16;
            let at = self.senders.partition_point(|sender| *sender < from);
            self.senders.insert(at, from);
        }
        received.push_back((at_ns, frame));
    }

    /// Takes the next frame of the sender at `at` of `senders`: the sender, the time of arrival, the frame.
    fn take_received(&mut self, at: usize) -> (NodeId, u64, Bytes) {
        let from = self.senders[at];
        let received = &mut self.received[usize::from(from)];
        let (came_ns, frame) = received.pop_front().expect("a sender has a frame here");
        if received.is_empty() {
            self.senders.remove(at);
        }
        (NodeId(from), came_ns, frame)
    }

    /// Whether an input waits, ticks aside.
    fn has_input(&self) -> bool {
        !self.inbox.is_empty() || !self.senders.is_empty()
    }
}

/// A channel's timer, set to [`Channel::due`].
#[derive(Default)]
struct Timer {
    /// Expiry time; [`Event::Due`] events of other times are void.
    at_ns: Option<u64>,
    /// It has expired, and the channel has not handled the tick yet.
    is_due: bool,
}

/// A connection: one direction between two nodes, for one channel.
struct Link {
    /// Its two ends.
    packer: Packer,
    unpacker: Unpacker,
    /// Frames on their way to the receiver's NIC.
    under_way: Lane<Frame>,
    /// Frames that the receiver's NIC takes in.
    coming_in: Lane<Frame>,
}

impl Link {
    fn new(packing: Packing, element_bytes: usize) -> Self {
        Self {
            packer: Packer::new(packing, element_bytes),
            unpacker: Unpacker::new(element_bytes),
            under_way: Lane::default(),
            coming_in: Lane::default(),
        }
    }
}

/// A frame in flight on a connection.
struct Frame {
    /// Number of the frame on its connection.
    number: u64,
    frame: Bytes,
    /// Charged length.
    bytes: u64,
    /// Time at which its last byte reaches the receiver's NIC.
    sent_ns: u64,
}

/// A cluster in virtual time.
pub struct Cluster<E> {
    layout: Arc<Layout>,
    workers_per_node: usize,
    delays: Delays,
    faults: Faults,
    access: LocalAccess,
    policy: Policy,
    checks: Checks,
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
    invariants: Invariants,
    watch: Watch,
    /// Decisions of nodes (relocate, replicate) that no channel has handled yet.
    pending_decisions: usize,
    /// The cluster is quiescent, and no worker has continued since.
    resting: bool,
    /// First key whose copies the next check at rest compares.
    compared: u64,
    /// By station, then node: the last clock received.
    clocks_received: Vec<u32>,
    /// Pending timer events.
    timers: usize,
    /// Timer events and ticks that have happened.
    ticks: u64,
    /// Channels that are handling a tick.
    ticking: usize,
    /// Timer events without effect since the last activity, and the time of that activity.
    idle_timers: usize,
    last_activity_ns: u64,
    /// Whether nodes read in each other's windows.
    has_windows: bool,
    /// Mean bytes per value.
    value_bytes_mean: usize,
    actions: Vec<Action>,
    traffic: NetworkStats,
    sent_value_bytes: u64,
}

impl<E: Element> Cluster<E> {
    /// A cluster at virtual time 0.
    #[must_use]
    #[inline(never)]
    pub fn new(config: ClusterConfig<E>) -> Self {
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
        let hosts = config.hosts.filter(|hosts| hosts.nodes > 1 && Windows::are_used(&policy, &layout));
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
        let static_replicas = keys_with_static_replicas(&layout, &policy, &replication);
        let has_copies = policy.replicas.is_some() || policy.static_replicas.is_some();
        let slack = has_copies.then_some(3 * layout.keys() + 2 * workers as u64 + 3);
        let choice = policy.intents.filter(|_| config.checks == Checks::EveryStep && nodes > 1);
        let intents = choice.map(|intents| Intents::new(intents, nodes, channels, workers));
        let mut cluster = Self {
            workers_per_node: workers,
            sharing: config.delays.machine.sharing(workers, channels),
            cores: vec![Core::default(); cores],
            delays: config.delays,
            faults: config.faults,
            access,
            policy,
            checks: config.checks,
            nics: vec![Nic::default(); nodes],
            nodes: shared,
            worker_states,
            links: (0..links).map(|_| Link::new(config.packing, size_of::<E>())).collect(),
            queue: Queue::new(),
            dice,
            trace: Trace::new(config.trace),
            recording: None,
            reach: Reach::default(),
            invariants: Invariants {
                ledger: Ledger::new(&layout),
                owners: Owners::new(&layout, storage, policy.replicas.is_some(), static_replicas),
                knowledge: Knowledge::new(&layout, storage, &policy),
                queued: Queued::default(),
                replies: Replies::new(stations.len()),
                hops: Hops::new(&policy),
                fifo: Fifo::new(links),
                bounded: Bounded::new(stations.len(), config.outstanding_bytes_max, slack),
                merged: Merged::default(),
                rounds: Rounds::new(nodes, channels),
                intents,
                progress: Progress::new(config.events_max),
            },
            stations,
            has_windows: hosts.is_some(),
            value_bytes_mean: (layout.elements() / layout.keys()) as usize * size_of::<E>(),
            layout,
            watch: Watch::default(),
            pending_decisions: 0,
            resting: false,
            compared: 0,
            clocks_received: Vec::new(),
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

    /// Whether the run searches for defects.
    fn checks_all(&self) -> bool {
        self.checks == Checks::EveryStep
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

/// Per key, whether it has static replicas; empty if none has.
fn keys_with_static_replicas(layout: &Layout, policy: &Policy, replication: &ReplicationConfig) -> Vec<bool> {
    let has_static = |key| match policy.static_replicas {
        Some(StaticReplicas::All) => true,
        Some(StaticReplicas::Assigned) => replication.assignment.technique(key) == KeyTechnique::Replicate,
        None => false,
    };
    let several = layout.nodes() > 1 && policy.static_replicas.is_some();
    if several { (0..layout.keys()).map(|key| has_static(Key(key))).collect() } else { Vec::new() }
}
