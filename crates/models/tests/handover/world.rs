//! Nodes on shuttle's threads: their channels, and the queues that carry inputs to them.
//!
//! Each link between nodes, and each queue of a worker, keeps the order of its inputs. Shuttle chooses which
//! of the non-empty ones is next. So a message may be overtaken by one that was sent later on another way, as
//! over real connections.

use intendant_checkers::lanes;
use intendant_checkers::registers::Registers;
use intendant_core::{ChannelId, Key, KeyOrder, Layout, NodeId, Tick, WorkerId};
use intendant_engine::{
    Action, Channel, Completion, Input, LocalAccess, ManagementStats, ReplicationConfig, Shared,
    SharedConfig, Storage, WindowConfig, Windows,
};
use intendant_segment::{Segment, View};
use intendant_techniques::{Policy, Replicas, Role, StaticReplicaPace};
use shuttle::rand::Rng;
use shuttle::sync::mpsc::{Receiver, Sender, channel};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread::{self, JoinHandle};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of keys whose values count pushes. One more key is a register, whose values are overwritten.
pub(crate) const LANES: u64 = 3;
pub(crate) const REGISTER: Key = Key(LANES);
pub(crate) const KEYS: u64 = LANES + 1;

/// The number of waves after which copies are synchronised, and no copy is still being set up, brought back
/// or given up.
const SETTLES: usize = 6;

/// The configuration of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) nodes: usize,
    pub(crate) workers_per_node: usize,
    pub(crate) channels: usize,
    pub(crate) storage: Storage,
    pub(crate) policy: Policy,
    /// Whether nodes read in each other's windows.
    pub(crate) windows: bool,
    /// Whether workers have several operations under way.
    pub(crate) asynchronous: bool,
    /// Calls of each worker.
    pub(crate) calls: usize,
}

impl Setup {
    pub(crate) fn workers(&self) -> usize {
        self.nodes * self.workers_per_node
    }

    fn has_copies(&self) -> bool {
        self.policy.replicas.is_some() || self.policy.static_replicas.is_some()
    }
}

/// The inputs that wait for a channel.
struct Mail {
    /// By sending node, then by worker of this node.
    ways: Vec<VecDeque<Input>>,
    over: bool,
}

struct Inbox {
    mail: Mutex<Mail>,
    came: Condvar,
}

/// All nodes.
pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) layout: Arc<Layout>,
    pub(crate) nodes: Vec<Arc<Shared<f32>>>,
    /// By node and channel.
    inboxes: Vec<Inbox>,
    /// By worker, over all nodes.
    deliveries: Vec<Sender<Completion>>,
    // These are not shuttle's atomics, because no thread makes a decision by them while others run.
    time: AtomicU64,
    under_way: AtomicU64,
}

/// Opens a window of each node, in which all others read.
fn open_windows(layout: &Arc<Layout>, nodes: Vec<Shared<f32>>) -> Vec<Shared<f32>> {
    // Mirrors end now and then.
    let config = WindowConfig { lent: 3, ..WindowConfig::default() };
    let words = Windows::words::<f32>(layout, config);
    let segments: Vec<_> = nodes.iter().map(|_| Segment::new(words).expect("memory")).collect();
    let opened = nodes.into_iter().enumerate().map(|(at, node)| {
        let others = segments.iter().enumerate().map(|(other, it)| (other != at).then(|| View::of(it)));
        let (own, others) = (segments[at].clone(), others.collect());
        let windows = Windows::new::<f32>(layout, config, node.node(), own, others);
        node.with_windows(windows.expect("all are as long"))
    });
    opened.collect()
}

/// The threads of the channels.
pub(crate) struct Channels(Vec<JoinHandle<Channel<f32>>>);

impl World {
    /// Starts the channels. Also returns the receivers of the workers' completions.
    pub(crate) fn start(setup: Setup) -> (Arc<Self>, Channels, Vec<Receiver<Completion>>) {
        let len = 2 * setup.workers() + 1;
        let layout = Layout::builder().range("lanes", LANES, len).range("register", 1, 2);
        let layout = layout.nodes(setup.nodes).channels(setup.channels).shards(2).order(KeyOrder::Range);
        let layout = Arc::new(layout.build().expect("a valid layout"));
        let init = |key: Key, value: &mut [f32]| match key {
            REGISTER => Registers::initial(value),
            _ => lanes::initial(key, value),
        };
        let node = |node| {
            let (layout, init) = (Arc::clone(&layout), Arc::new(init));
            let Setup { storage, policy, .. } = setup;
            let (node, workers) = (NodeId(node as u16), setup.workers_per_node);
            let replication = ReplicationConfig {
                pace: StaticReplicaPace::Every(Tick(20)),
                ..ReplicationConfig::default()
            };
            let access = LocalAccess::Shared;
            let config = SharedConfig { node, layout, init, storage, access, policy, replication, workers };
            Shared::new(config)
        };
        let nodes: Vec<Shared<f32>> = (0..setup.nodes).map(node).collect();
        let nodes = if setup.windows { open_windows(&layout, nodes) } else { nodes };
        let inbox = |_| Inbox {
            mail: Mutex::new(Mail {
                ways: (0..setup.nodes + setup.workers_per_node).map(|_| VecDeque::new()).collect(),
                over: false,
            }),
            came: Condvar::new(),
        };
        let (deliveries, received) = (0..setup.workers()).map(|_| channel()).unzip();
        let world = Arc::new(Self {
            nodes: nodes.into_iter().map(Arc::new).collect(),
            inboxes: (0..setup.nodes * setup.channels).map(inbox).collect(),
            deliveries,
            time: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
            layout,
            setup,
        });
        let places = (0..setup.nodes).flat_map(|node| (0..setup.channels).map(move |c| (node, c)));
        let channels = places.map(|(node, id)| {
            let world = Arc::clone(&world);
            // The channel is created before the first worker does anything.
            let channel = Channel::new(ChannelId(id as u16), Arc::clone(&world.nodes[node]));
            thread::spawn(move || world.run_channel(node, channel))
        });
        let channels = Channels(channels.collect());
        (world, channels, received)
    }

    /// The time, which advances with every call.
    pub(crate) fn now(&self) -> Tick {
        Tick(self.time.fetch_add(1, Ordering::Relaxed))
    }

    fn put(&self, node: usize, channel: ChannelId, way: usize, input: Input) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let inbox = &self.inboxes[node * self.setup.channels + channel.index()];
        inbox.mail.lock().expect("no thread panics").ways[way].push_back(input);
        inbox.came.notify_one();
    }

    /// Hands a worker's input to a channel of its node.
    pub(crate) fn submit(&self, node: usize, worker: usize, channel: ChannelId, input: Input) {
        self.put(node, channel, self.setup.nodes + worker, input);
    }

    fn next(&self, node: usize, channel: ChannelId) -> Option<Input> {
        let inbox = &self.inboxes[node * self.setup.channels + channel.index()];
        let mut mail = inbox.mail.lock().expect("no thread panics");
        loop {
            let ready: Vec<usize> = (0..mail.ways.len()).filter(|way| !mail.ways[*way].is_empty()).collect();
            if !ready.is_empty() {
                let way = ready[shuttle::rand::thread_rng().gen_range(0..ready.len())];
                return mail.ways[way].pop_front();
            }
            if mail.over {
                return None;
            }
            mail = inbox.came.wait(mail).expect("no thread panics");
        }
    }

    fn run_channel(&self, node: usize, mut channel: Channel<f32>) -> Channel<f32> {
        let (id, mut actions) = (channel.id(), Vec::new());
        while let Some(input) = self.next(node, id) {
            channel.handle(self.now(), input, &mut actions).expect("no peer breaks the protocol");
            for action in actions.drain(..) {
                match action {
                    Action::Send { to, message } => {
                        // Through the codec, as on a wire.
                        let message = intendant_wire::Message::decode(message.encode()).expect("a frame");
                        let from = NodeId(node as u16);
                        self.put(to.index(), id, node, Input::Message { from, message });
                    }
                    Action::Complete { worker, completion } => self.deliver(node, worker, completion),
                    Action::CompleteSnapshot { .. } => unreachable!("no worker asks for snapshots"),
                }
            }
            self.under_way.fetch_sub(1, Ordering::Relaxed);
        }
        channel
    }

    fn deliver(&self, node: usize, worker: WorkerId, completion: Completion) {
        let worker = node * self.setup.workers_per_node + worker.index();
        self.deliveries[worker].send(completion).expect("the worker waits for it");
    }

    /// Waits until nothing is under way, ends the channels, and checks that they have nothing left to do and
    /// that every key is in one place. Returns the statistics of parameter management.
    pub(crate) fn finish(&self, channels: Channels) -> ManagementStats {
        self.come_to_rest();
        if self.setup.has_copies() {
            self.put_all(|| Input::Tick);
            let urgent = self.urgent();
            assert!(urgent.is_empty(), "channels have looked, but have not sent urgent updates: {urgent:?}");
            for _ in 0..SETTLES {
                self.put_all(|| Input::Settle);
            }
        }
        for inbox in &self.inboxes {
            inbox.mail.lock().expect("no thread panics").over = true;
            inbox.came.notify_one();
        }
        let mut stats = ManagementStats::default();
        for channel in channels.0 {
            let channel = channel.join().expect("the channel ends");
            assert_eq!((channel.report().outstanding, channel.arriving()), (0, 0), "something is left over");
            stats.merge(channel.management());
        }
        for key in (0..KEYS).map(Key) {
            let places: Vec<_> = self.nodes.iter().map(|node| node.inspect().role(key)).collect();
            if places.iter().all(|place| *place == (Role::Static, true)) {
                continue;
            }
            let owners = places.iter().filter(|(role, held)| role.is_owner() && *held).count();
            let is_other =
                |place: &&(Role, bool)| matches!(place, (Role::Absent, false) | (Role::Replica, true));
            let others = places.iter().filter(is_other).count();
            // A key of a sparse store that no worker touched is at no node.
            let untouched = self.setup.storage == Storage::Sparse && others == places.len();
            assert!(untouched || (owners == 1 && others == places.len() - 1), "{key:?}: {places:?}");
            for node in &self.nodes {
                let (mirrored, value) = (node.inspect().mirrored(key), node.inspect().value(key));
                assert!(mirrored.is_none() || mirrored == value, "{key:?}: {mirrored:?} of {value:?}");
            }
        }
        stats
    }

    /// Passes an input to every channel, and waits until nothing is under way.
    fn put_all(&self, input: impl Fn() -> Input) {
        for (node, channel) in
            (0..self.setup.nodes).flat_map(|node| (0..self.setup.channels).map(move |c| (node, c)))
        {
            self.put(node, ChannelId(channel as u16), node, input());
        }
        self.come_to_rest();
    }

    /// The replicas, with their nodes, whose unsent updates have used up their allowance; none if the policy
    /// has no allowances.
    pub(crate) fn urgent(&self) -> Vec<(usize, Key)> {
        if !matches!(self.setup.policy.replicas, Some(Replicas::Directed { .. })) {
            return Vec::new();
        }
        let is_urgent = |(node, key): &(usize, Key)| {
            let state = self.nodes[*node].inspect().slot(*key);
            state.role == Role::Replica && state.is_dirty() && state.is_urgent()
        };
        let places = (0..self.setup.nodes).flat_map(|node| (0..KEYS).map(move |key| (node, Key(key))));
        places.filter(is_urgent).collect()
    }

    /// Waits until nothing is under way.
    pub(crate) fn come_to_rest(&self) {
        while self.under_way.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
    }

    /// The value of a key. To be called after the end.
    pub(crate) fn value(&self, key: Key) -> Option<Vec<f32>> {
        let home = &self.nodes[self.layout.home(key).index()];
        let owner = self.nodes.iter().find(|node| node.inspect().role(key).0.is_owner()).unwrap_or(home);
        owner.inspect().value(key)
    }
}
