//! A whole cluster in one thread: the engines of all nodes, the queues between their threads, and the
//! network.
//!
//! [`Cluster`] knows engines and messages, and nothing of what workers want: programs (`intendant-checkers`,
//! [`crate::run_task`]) call [`Cluster::pull`] and its siblings on behalf of workers and then
//! [`Cluster::next`], event by event. What threads do in one go is cut at every point where another thread
//! could come between:
//!
//! ```text
//! call (fast path) → submission reaches the inbox → channel takes it → frame reaches the NIC → frame is in
//! → channel takes it → … → channel takes it → completion reaches the worker's queue → worker takes it
//! ```
//!
//! Work takes time ([`crate::Machine`], [`crate::Network`]). A channel's thread handles one input at a time.
//! A NIC sends one frame and receives one frame at a time. A worker makes its next call when the time of the
//! call before has passed.

mod calls;
mod copies;
mod events;
mod explain;
mod instances;
mod intents;
mod messages;
mod rest;
mod transit;
mod watch;
mod watch_copies;

pub use calls::{Called, Wait};
pub use intents::Caller;

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
    AccessStats, Action, Channel, ChannelReport, Completion, Input, Local, ManagementStats,
    ReplicationConfig, Shared, SharedConfig, SnapshotAsk, Storage, Submission,
};
use intendant_techniques::clocks::NodeClock;
use intendant_techniques::{KeyTechnique, Policy, StaticReplicas};
use intendant_wire::{OpId, SnapshotPart};
use std::collections::VecDeque;
use std::sync::Arc;
use watch::Watch;

/// What a cluster is made from. The layout says how many nodes and channels there are.
#[derive(Clone)]
pub struct ClusterConfig<E> {
    /// Keys, nodes, channels.
    pub layout: Arc<Layout>,
    /// Initial values.
    pub init: Initialiser<E>,
    /// Dense or sparse stores.
    pub storage: Storage,
    /// The technique.
    pub policy: Policy,
    /// How copies are kept; used by techniques that have some.
    pub copies: ReplicationConfig,
    /// Workers per node.
    pub workers: usize,
    /// Bytes of values that a worker may have outstanding.
    pub outstanding_bytes_max: usize,
    /// Whether nodes start with stale ideas of where keys are.
    pub stale_hints: bool,
    /// How long things take.
    pub delays: Delays,
    /// What goes wrong when.
    pub faults: Faults,
    /// How much is checked.
    pub checks: Checks,
    /// Events after which a run counts as one that never ends.
    pub events_max: u64,
    /// Decides everything that is random.
    pub seed: u64,
    /// Whether to keep a readable trace.
    pub trace: bool,
}

/// When the invariants are checked that look at the state of nodes. All others are checked whenever what they
/// are about happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// At every event: for runs that look for errors.
    EveryStep,
    /// When the cluster rests: for runs that measure.
    AtRest,
}

/// An event, as the queue knows it. Contents wait in lanes, so that order within a lane is kept by
/// construction.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A worker's program goes on.
    Awake { worker: u32 },
    /// A worker's loader goes on.
    Loaded { worker: u32 },
    /// A submission reaches the inbox of a channel.
    Enqueue { worker: u32, channel: u32 },
    /// The front of a frame is at the receiver's NIC.
    Front { link: u32 },
    /// The end of a frame is in.
    Arrive { link: u32 },
    /// A channel has worked on its input.
    Turn { station: u32 },
    /// A completion reaches the queue of a worker.
    Deliver { worker: u32, channel: u32 },
    /// A worker takes a completion from its queue.
    Intake { worker: u32 },
    /// A channel is asked what it has outstanding.
    Report { station: u32 },
    /// Something happens that a channel sleeps for.
    Woken { station: u32 },
    /// It may be time for what a channel does without an occasion.
    Due { station: u32 },
}

/// What an event means to programs.
#[derive(Debug)]
pub enum Happened {
    /// Nothing: the cluster was busy with itself.
    Internal,
    /// The time for which a worker asked to be woken.
    Awake(usize),
    /// The time for which a worker's loader asked to be woken.
    Loaded(usize),
    /// A worker learnt that a part of an operation is done.
    Answered {
        /// The worker.
        worker: usize,
        /// Its operation.
        op: OpId,
        /// Whether all of the operation is done.
        done: bool,
    },
    /// A worker got a part of a snapshot.
    Part {
        /// The worker.
        worker: usize,
        /// The part.
        part: SnapshotPart,
    },
    /// A channel answered [`Cluster::ask_reports`].
    Reported(ChannelReport),
}

enum Errand {
    Access(Submission),
    /// A decision to move keys to a node.
    Order(Vec<Key>, NodeId),
    /// A decision to have replicas of keys, or not to have them any more.
    Replicate(Vec<Key>, bool),
    Snapshot(SnapshotAsk),
    Clock(NodeClock),
    /// Something has happened that the channel sleeps for.
    Wake,
    /// Bring copies in step, then report.
    Report,
}

enum Delivery {
    Access(Completion),
    Part(SnapshotPart),
}

/// A worker and what lies between it and the channels of its node.
struct Post<E> {
    local: Local<E>,
    /// To each channel.
    errands: Vec<Lane<Errand>>,
    /// From each channel.
    results: Vec<Lane<Delivery>>,
    queue: VecDeque<Delivery>,
    /// Where the values of the pull go that the worker blocks on.
    sink: Option<(OpId, Vec<E>)>,
    /// When the worker is done with what it did so far.
    free_ns: u64,
    /// What all of it took, waiting excluded.
    busy_ns: u64,
    /// The work of its node's channels by which it has been delayed.
    seen_ns: u64,
}

/// A channel of a node and what waits for it.
struct Station<E> {
    engine: Channel<E>,
    /// When it came, who sent it.
    inbox: VecDeque<(u64, usize, Errand)>,
    /// Frames that arrived and when, per node they came from.
    received: Vec<VecDeque<(u64, Bytes)>>,
    thread: Facility,
    /// What the thread works on.
    current: Option<Input>,
    timer: Timer,
}

/// When a channel does something without an occasion.
#[derive(Default)]
struct Timer {
    /// When it goes off; events of other times are void.
    at_ns: Option<u64>,
    /// It has gone off, and the channel has not looked yet.
    is_due: bool,
}

/// A connection: one direction, one channel.
#[derive(Default)]
struct Link {
    under_way: Lane<Frame>,
    coming_in: Lane<Frame>,
}

struct Frame {
    number: u64,
    frame: Bytes,
    /// Charged length.
    bytes: u64,
    /// When its end is at the receiver's NIC.
    sent_ns: u64,
}

/// A cluster in virtual time.
pub struct Cluster<E> {
    layout: Arc<Layout>,
    workers_per_node: usize,
    delays: Delays,
    faults: Faults,
    policy: Policy,
    checks: Checks,
    sharing: Sharing,
    nodes: Vec<Arc<Shared<E>>>,
    nics: Vec<Nic>,
    /// By node, then channel.
    stations: Vec<Station<E>>,
    /// By node, then worker.
    posts: Vec<Post<E>>,
    /// By sender, then receiver, then channel.
    links: Vec<Link>,
    queue: Queue<Event>,
    dice: Dice,
    trace: Trace,
    reach: Reach,
    invariants: Invariants,
    watch: Watch,
    /// Decisions that have not reached their channels.
    orders: usize,
    /// The cluster has come to rest, and no worker has continued since.
    resting: bool,
    /// The first of the keys that are compared next when it rests.
    compared: u64,
    /// By channel of a node, then node: the clock that was heard last.
    heard: Vec<u32>,
    /// Events of timers that lie ahead, and those that have happened, with what channels did about them.
    timers: usize,
    ticks: u64,
    /// Channels that look at the time.
    looking: usize,
    /// Timers that went off, for nothing, since something else happened; and when that was.
    fruitless: usize,
    lively_ns: u64,
    /// Bytes of a value on average.
    value_bytes_mean: usize,
    actions: Vec<Action>,
    messages: u64,
    bytes: u64,
}

impl<E: Element> Cluster<E> {
    /// A cluster at the start.
    #[must_use]
    #[inline(never)]
    pub fn new(config: ClusterConfig<E>) -> Self {
        let ClusterConfig { layout, init, storage, policy, copies, workers, .. } = config;
        let mut dice = Dice::new(random::stream(config.seed, &[1]));
        let (nodes, channels) = (layout.nodes(), layout.channels());
        let shared: Vec<Arc<Shared<E>>> = (0..nodes)
            .map(|node| {
                let (layout, init) = (Arc::clone(&layout), Arc::clone(&init));
                let (node, copies) = (NodeId(node as u16), copies.clone());
                {
                    let replication = copies;
                    Arc::new(Shared::new(SharedConfig {
                        node,
                        layout,
                        init,
                        storage,
                        policy,
                        replication,
                        workers,
                    }))
                }
            })
            .collect();
        if config.stale_hints && nodes > 1 {
            plant_hints(&layout, &shared, &mut dice);
        }
        let mut stations = Vec::with_capacity(nodes * channels);
        let mut posts = Vec::with_capacity(nodes * workers);
        for node in &shared {
            stations.extend((0..channels).map(|channel| Station {
                engine: Channel::new(ChannelId(channel as u16), Arc::clone(node)),
                inbox: VecDeque::new(),
                received: (0..nodes).map(|_| VecDeque::new()).collect(),
                thread: Facility::default(),
                current: None,
                timer: Timer::default(),
            }));
            posts.extend((0..workers).map(|worker| Post {
                local: Local::new(WorkerId(worker as u16), &layout),
                errands: (0..channels).map(|_| Lane::default()).collect(),
                results: (0..channels).map(|_| Lane::default()).collect(),
                queue: VecDeque::new(),
                sink: None,
                free_ns: 0,
                busy_ns: 0,
                seen_ns: 0,
            }));
        }
        let links = nodes * nodes * channels;
        let fixed = fixed_keys(&layout, &policy, &copies);
        let has_copies = policy.replicas.is_some() || policy.static_replicas.is_some();
        let slack = has_copies.then_some(3 * layout.keys() + 2 * workers as u64 + 3);
        let choice = policy.intents.filter(|_| config.checks == Checks::EveryStep && nodes > 1);
        let intents = choice.map(|intents| Intents::new(intents, nodes, channels, workers));
        let mut cluster = Self {
            workers_per_node: workers,
            sharing: config.delays.machine.sharing(workers, channels),
            delays: config.delays,
            faults: config.faults,
            policy,
            checks: config.checks,
            nics: vec![Nic::default(); nodes],
            nodes: shared,
            posts,
            links: (0..links).map(|_| Link::default()).collect(),
            queue: Queue::new(),
            dice,
            trace: Trace::new(config.trace),
            reach: Reach::default(),
            invariants: Invariants {
                ledger: Ledger::new(&layout),
                owners: Owners::new(&layout, storage, policy.replicas.is_some(), fixed),
                knowledge: Knowledge::new(&layout, storage, policy.relocation),
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
            value_bytes_mean: (layout.elements() / layout.keys()) as usize * size_of::<E>(),
            layout,
            watch: Watch::default(),
            orders: 0,
            resting: false,
            compared: 0,
            heard: Vec::new(),
            timers: 0,
            ticks: 0,
            looking: 0,
            fruitless: 0,
            lively_ns: 0,
            actions: Vec::new(),
            messages: 0,
            bytes: 0,
        };
        (0..cluster.stations.len()).for_each(|station| cluster.set_timer(station));
        cluster
    }

    /// Keys, nodes, channels.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Workers of all nodes. They are numbered node by node.
    pub fn workers(&self) -> usize {
        self.posts.len()
    }

    /// Whether a node has a copy of a key, so that an access needs no message.
    #[inline(never)]
    pub fn is_local(&self, node: usize, key: Key) -> bool {
        self.nodes[node].is_local(key)
    }

    /// Virtual time since the start.
    pub fn now_ns(&self) -> u64 {
        self.queue.now_ns()
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.trace.events()
    }

    /// A hash over everything that happened. Runs with the same seed have the same hash.
    pub fn hash(&self) -> u64 {
        self.trace.hash()
    }

    /// The readable trace so far, if there is one.
    pub fn take_trace(&mut self) -> Vec<String> {
        self.trace.take_lines()
    }

    /// Messages and their bytes (charged) that nodes sent so far.
    pub fn traffic(&self) -> (u64, u64) {
        (self.messages, self.bytes)
    }

    /// Accesses of a worker so far.
    #[inline(never)]
    pub fn accesses(&self, worker: usize) -> AccessStats {
        self.posts[worker].local.stats()
    }

    /// What managing keys took so far, on all nodes.
    #[inline(never)]
    pub fn management(&self) -> ManagementStats {
        let mut sum = ManagementStats::default();
        self.stations.iter().for_each(|station| sum.merge(station.engine.management()));
        sum
    }

    /// What workers, channels and NICs did so far.
    #[inline(never)]
    pub fn load(&self) -> ClusterLoad {
        let mut load = ClusterLoad::default();
        load.workers.busy_ns = self.posts.iter().map(|post| post.busy_ns).sum();
        self.stations.iter().for_each(|station| load.channels.merge(&station.thread.load()));
        for nic in &self.nics {
            load.sending.merge(&nic.sending.load());
            load.receiving.merge(&nic.receiving.load());
        }
        load
    }

    /// The values of all keys, concatenated, as their owners hold them.
    ///
    /// # Panics
    /// If a key has no owner, which the invariants exclude.
    #[inline(never)]
    pub fn values(&self) -> Vec<E> {
        let owned = |key| self.nodes.iter().find_map(|node| node.peek(key)).expect("every key has an owner");
        (0..self.layout.keys()).map(Key).flat_map(owned).collect()
    }

    /// What was reached so far.
    pub fn reach(&mut self) -> &mut Reach {
        &mut self.reach
    }

    /// Adds a line to the readable trace.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        self.trace.line(self.queue.now_ns(), text);
    }

    /// A finding as an error that says when it was found.
    #[inline(never)]
    pub fn violation(&self, (check, what): Finding) -> Violation {
        Violation { check, at_ns: self.queue.now_ns(), event: self.trace.events(), what }
    }

    /// The finding that nothing is left to happen although `who` waits.
    #[inline(never)]
    pub fn stuck(&self, who: &str) -> Violation {
        self.violation(Progress::stuck(who))
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

/// What workers, channels and NICs of all nodes did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterLoad {
    /// Time that workers were busy with calls and arithmetic. They have no queue.
    pub workers: Load,
    /// The channels' threads, which serve inputs.
    pub channels: Load,
    /// The sending halves of NICs, which serve frames.
    pub sending: Load,
    /// The receiving halves of NICs.
    pub receiving: Load,
}

impl ClusterLoad {
    /// What came on top of `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            workers: self.workers.since(&before.workers),
            channels: self.channels.since(&before.channels),
            sending: self.sending.since(&before.sending),
            receiving: self.receiving.since(&before.receiving),
        }
    }
}

/// Gives nodes an idea of where half of the other nodes' keys are. It is wrong more often than not, and does
/// not change, because it passes for newer than the truth: the way of a node's requests for a key stays the
/// same.
fn plant_hints<E: Element>(layout: &Layout, nodes: &[Arc<Shared<E>>], dice: &mut Dice) {
    for node in nodes {
        for key in (0..layout.keys()).map(Key) {
            if dice.once_in(2) {
                node.learn(key, NodeId(dice.below(nodes.len() as u64) as u16), 1);
            }
        }
    }
}

/// Which keys have static replicas; empty if none.
fn fixed_keys(layout: &Layout, policy: &Policy, copies: &ReplicationConfig) -> Vec<bool> {
    let fixed = |key| match policy.static_replicas {
        Some(StaticReplicas::All) => true,
        Some(StaticReplicas::Assigned) => copies.assignment.technique(key) == KeyTechnique::Replicate,
        None => false,
    };
    let several = layout.nodes() > 1 && policy.static_replicas.is_some();
    if several { (0..layout.keys()).map(|key| fixed(Key(key))).collect() } else { Vec::new() }
}
