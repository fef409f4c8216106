//! Several nodes. A test delivers messages one by one, or lets a seed choose the next one.
//!
//! A *place* is a channel of a node. It has a *queue* for the messages of each other node, and one for the
//! submissions of all workers of its own node. Only the order within a queue is kept. Every message goes
//! through the codec.
//!
//! [`Cluster::handle`] checks after every input that each key has one owner, and that the traced events tell
//! where keys are.

mod book;
mod watch;
mod worker;

use self::book::Book;
use self::watch::Watch;
use self::worker::Worker;
use super::node::config;
use intendant_core::{ChannelId, Key, KeyOrder, Layout, NodeId, Tick, WorkerId, random};
use intendant_engine::quiesce::Waves;
use intendant_engine::{
    Action, Channel, ChannelReport, Input, Local, ManagementStats, ReplicationConfig, Shared, SharedConfig,
    Storage,
};
use intendant_techniques::{Policy, Role, SlotState};
use intendant_trace::Filter;
use intendant_wire::{Message, ReplicaRequestKind, ReplicaUpdateKind};
use std::collections::VecDeque;
use std::sync::Arc;

/// The key of tests in which one key suffices. Node 0 is its home.
pub(crate) const K: Key = Key(0);

/// The initial sum of fractions of each key: the sum shows whether a value was initialized twice, or never.
const INITIAL: f32 = 0.5;

/// Prints the seed with which a test failed.
pub(crate) struct Seed(pub(crate) u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = random::mix(self.0);
        (self.0 % limit as u64) as usize
    }

    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) nodes: usize,
    /// Per node.
    pub(crate) workers: usize,
    pub(crate) channels: usize,
    pub(crate) keys: u64,
    pub(crate) storage: Storage,
    pub(crate) policy: Policy,
    pub(crate) replication: ReplicationConfig,
}

impl Setup {
    /// Elements per key: per worker a *lane*, which counts its pushes; one for the sum of fractions; and the
    /// *tag*, which only sets change.
    pub(crate) fn len(&self) -> usize {
        self.nodes * self.workers + 2
    }
}

pub(crate) struct Cluster {
    pub(crate) setup: Setup,
    pub(crate) layout: Arc<Layout>,
    pub(crate) nodes: Vec<Arc<Shared<f32>>>,
    /// By place: node by node.
    pub(crate) channels: Vec<Channel<f32>>,
    /// Node by node.
    pub(crate) workers: Vec<Worker>,
    /// By place, then by sending node. The workers of a node use the queue of the node itself.
    queues: Vec<Vec<VecDeque<Input>>>,
    /// Parallel to `queues`: whether the queue is slow at the moment.
    slow: Vec<Vec<bool>>,
    pub(crate) now: Tick,
    pub(crate) dice: Dice,
    pub(crate) watch: Watch,
    book: Book,
    /// Messages delivered so far.
    pub(crate) delivered: u64,
}

/// The type of a message; of messages about replicas, the kind.
fn name(message: &Message) -> &'static str {
    match message {
        Message::ReplicaRequest(request) => match request.kind {
            ReplicaRequestKind::Ask => "Ask",
            ReplicaRequestKind::Delta => "Delta",
            ReplicaRequestKind::Drop => "Drop",
        },
        Message::ReplicaUpdate(update) => match update.kind {
            ReplicaUpdateKind::SetUp => "SetUp",
            ReplicaUpdateKind::Refresh => "Refresh",
            ReplicaUpdateKind::Acknowledged => "Acknowledged",
            ReplicaUpdateKind::Dropped => "Dropped",
        },
        Message::Request(_) => "Request",
        Message::Response(_) => "Response",
        Message::Localize(_) => "Localize",
        Message::Relocate(_) => "Relocate",
        Message::HandOver(_) => "HandOver",
        Message::Moved(_) => "Moved",
        Message::IntentReport(_) => "IntentReport",
        Message::Clock(_) => "Clock",
        Message::Reduce(_) => "Reduce",
        Message::SnapshotRequest(_) => "SnapshotRequest",
        Message::SnapshotPart(_) => "SnapshotPart",
        Message::Locate(_) => "Locate",
        Message::Located(_) => "Located",
        Message::Void(_) => "Void",
    }
}

impl Cluster {
    pub(crate) fn new(setup: Setup, seed: u64) -> Self {
        let layout = Layout::builder().range("k", setup.keys, setup.len()).nodes(setup.nodes);
        let layout = layout.channels(setup.channels).shards(2 * setup.channels).order(KeyOrder::Range);
        let layout = Arc::new(layout.build().expect("a valid layout"));
        let node = |node| {
            Arc::new(Shared::new(SharedConfig {
                init: Arc::new(|_, value: &mut [f32]| {
                    value.fill(0.0);
                    value[value.len() - 2] = INITIAL;
                }),
                storage: setup.storage,
                replication: setup.replication.clone(),
                workers: setup.workers,
                ..config(node as u16, &layout, setup.policy)
            }))
        };
        let nodes: Vec<_> = (0..setup.nodes).map(node).collect();
        let channel = |c| ChannelId(c as u16);
        let all = |shared: &Arc<Shared<f32>>| {
            let shared = Arc::clone(shared);
            (0..setup.channels).map(move |c| Channel::new(channel(c), Arc::clone(&shared)))
        };
        let mut channels: Vec<_> = nodes.iter().flat_map(all).collect();
        channels.iter_mut().for_each(|channel| channel.trace(Filter::All));
        let local = |me| Local::new(WorkerId((me % setup.workers) as u16), &layout);
        let workers = (0..setup.nodes * setup.workers).map(|me| Worker::new(me, local(me), setup.keys));
        let queues = vec![vec![VecDeque::new(); setup.nodes]; channels.len()];
        Self {
            workers: workers.collect(),
            slow: vec![vec![false; setup.nodes]; channels.len()],
            now: Tick(1),
            dice: Dice(seed),
            watch: Watch::new(setup.nodes, setup.keys),
            book: Book::new(setup.nodes, (0..setup.keys).map(|key| layout.home(Key(key)))),
            delivered: 0,
            queues,
            channels,
            nodes,
            layout,
            setup,
        }
    }

    pub(crate) fn node_of(&self, place: usize) -> usize {
        place / self.setup.channels
    }

    pub(crate) fn place(&self, node: usize, key: Key) -> usize {
        node * self.setup.channels + self.layout.channel(key).index()
    }

    pub(crate) fn places_of(&self, node: usize) -> std::ops::Range<usize> {
        node * self.setup.channels..(node + 1) * self.setup.channels
    }

    pub(crate) fn role(&self, node: usize, key: Key) -> Role {
        self.nodes[node].inspect().slot(key).role
    }

    /// Gives an input to a channel, executes the actions, and checks the invariants.
    pub(crate) fn handle(&mut self, place: usize, input: Input) {
        let (node, mut actions) = (self.node_of(place), Vec::new());
        if let Input::Message { message, .. } = &input {
            self.watch.before(node, message, &self.nodes[node], &self.channels[place]);
        }
        let name = format!("{input:?}");
        let done = self.channels[place].handle(self.now, input, &mut actions);
        self.watch.trace(|| format!("{} @{node}: {name}\n      -> {actions:?}", self.now.0));
        done.unwrap_or_else(|violation| panic!("{violation} at node {node}: {name}"));
        self.watch.after(node, &actions, &self.nodes[node]);
        self.channels[place].take_events().for_each(|event| self.book.hear(node, event));
        for action in actions {
            match action {
                Action::Send { to, message } => {
                    let message = Message::decode(message.encode()).expect("a frame");
                    let place = to.index() * self.setup.channels + place % self.setup.channels;
                    let from = NodeId(node as u16);
                    self.queues[place][node].push_back(Input::Message { from, message });
                }
                Action::Complete { worker, completion } => {
                    self.workers[node * self.setup.workers + worker.index()].inbox.push_back(completion);
                }
                Action::CompleteSnapshot { .. } => unreachable!("no test asks for a snapshot"),
            }
        }
        self.check();
    }

    /// Checks what must hold at any time, and notes the tags of main copies.
    pub(crate) fn check(&mut self) {
        for key in (0..self.setup.keys).map(Key) {
            let owners: Vec<usize> =
                (0..self.setup.nodes).filter(|n| self.role(*n, key).is_owner()).collect();
            // A sparse store has no owner of a key before the first access to it.
            let home = self.layout.home(key).index();
            let untouched = self.nodes[home].inspect().slot(key) == SlotState::default();
            let is_static = self.role(0, key) == Role::Static;
            if !untouched && !is_static {
                (0..self.setup.nodes)
                    .for_each(|node| self.book.check(node, key, self.nodes[node].inspect().slot(key)));
            }
            if self.setup.policy.relocation.is_some() && !untouched && !is_static {
                let flying = self.watch.flying(key);
                assert_eq!(owners.len() + flying, 1, "{key:?}: owners {owners:?}, {flying} on their way");
            }
            for owner in owners {
                let value = self.nodes[owner].inspect().value(key).expect("an owner holds the value");
                self.watch.main(key, *value.last().expect("a tag"));
            }
        }
    }

    /// Queues a worker's input to a channel of its node.
    pub(crate) fn submit(&mut self, me: usize, channel: ChannelId, input: Input) {
        let node = me / self.setup.workers;
        let place = node * self.setup.channels + channel.index();
        self.queues[place][node].push_back(input);
    }

    /// Delivers the next input of a queue; false if the queue is empty.
    fn deliver_from(&mut self, place: usize, sender: usize) -> bool {
        let Some(input) = self.queues[place][sender].pop_front() else { return false };
        self.delivered += 1;
        self.handle(place, input);
        true
    }

    /// The queue of a node's messages to channel 0 of another node.
    pub(crate) fn link(&mut self, from: usize, to: usize) -> &mut VecDeque<Input> {
        let place = self.places_of(to).start;
        &mut self.queues[place][from]
    }

    /// Delivers the next message on a link; returns its type, and its kind if it is about replicas.
    pub(crate) fn deliver(&mut self, from: usize, to: usize) -> &'static str {
        let Some(Input::Message { message, .. }) = self.link(from, to).front() else {
            panic!("no message is on its way from {from} to {to}")
        };
        let name = name(message);
        assert!(self.deliver_from(self.places_of(to).start, from));
        name
    }

    /// Delivers the messages on a link in order.
    pub(crate) fn deliver_link(&mut self, from: usize, to: usize) -> Vec<&'static str> {
        let mut names = Vec::new();
        while !self.link(from, to).is_empty() {
            names.push(self.deliver(from, to));
        }
        names
    }

    /// Delivers what the workers of a node have submitted to channel 0.
    pub(crate) fn deliver_submissions(&mut self, node: usize) {
        while self.deliver_from(self.places_of(node).start, node) {}
    }

    /// Channel 0 of a node makes [`K`] a replica.
    pub(crate) fn replicate(&mut self, node: usize) {
        self.handle(self.places_of(node).start, Input::Replicate { keys: vec![K] });
    }

    pub(crate) fn unreplicate(&mut self, node: usize) {
        self.handle(self.places_of(node).start, Input::Unreplicate { keys: vec![K] });
    }

    /// Channel 0 of a node hands [`K`] over.
    pub(crate) fn relocate(&mut self, from: usize, to: u16) {
        self.handle(self.places_of(from).start, Input::Relocate { keys: vec![K], to: NodeId(to) });
    }

    /// The queues that have an input, without the slow ones if `slow` is false.
    fn ready(&self, slow: bool) -> Vec<(usize, usize)> {
        let mut ready = Vec::new();
        for (place, queues) in self.queues.iter().enumerate() {
            for (sender, queue) in queues.iter().enumerate() {
                if !queue.is_empty() && (slow || !self.slow[place][sender]) {
                    ready.push((place, sender));
                }
            }
        }
        ready
    }

    /// Delivers an input that the seed chooses; false if none is under way.
    pub(crate) fn deliver_any(&mut self) -> bool {
        let mut ready = self.ready(false);
        if ready.is_empty() || self.dice.percent(3) {
            ready = self.ready(true);
        }
        if ready.is_empty() {
            return false;
        }
        let (place, sender) = ready[self.dice.below(ready.len())];
        self.deliver_from(place, sender)
    }

    /// Delivers all inputs, in an order that the seed chooses.
    pub(crate) fn deliver_all(&mut self) {
        while self.deliver_any() {}
    }

    /// Number of messages and submissions that were not delivered.
    pub(crate) fn under_way(&self) -> usize {
        self.queues.iter().flatten().map(VecDeque::len).sum()
    }

    /// Chooses which queues are slow from now on.
    pub(crate) fn shift(&mut self) {
        let percent = [0, 30, 60][self.dice.below(3)];
        for place in 0..self.slow.len() {
            for sender in 0..self.slow[place].len() {
                self.slow[place][sender] = self.dice.percent(percent);
            }
        }
    }

    /// Advances the time, and gives a tick to a channel if one is due.
    pub(crate) fn tick(&mut self) {
        self.now.0 += self.dice.below(200) as u64;
        let place = self.dice.below(self.channels.len());
        if self.channels[place].due().is_some_and(|due| due <= self.now) {
            self.handle(place, Input::Tick);
        }
    }

    /// Settles and delivers in waves until the cluster is quiescent, and returns the number of waves. The
    /// workers must be idle. Panics after `waves_max` waves.
    pub(crate) fn quiesce(&mut self, waves_max: usize) -> usize {
        let mut waves = Waves::default();
        for wave in 1..=waves_max {
            let mut sum = ChannelReport::default();
            let first = self.dice.below(self.setup.nodes);
            for at in 0..self.setup.nodes {
                for place in self.places_of((first + at) % self.setup.nodes) {
                    self.handle(place, Input::Settle);
                    sum.merge(self.channels[place].report());
                }
                for _ in 0..self.dice.below(12) {
                    self.deliver_any();
                }
            }
            if waves.judge(sum) {
                assert_eq!(self.under_way(), 0, "quiescent while messages are under way");
                return wave;
            }
            for _ in 0..self.dice.below(60) {
                self.deliver_any();
            }
        }
        let reports: Vec<_> = self.channels.iter().map(Channel::report).collect();
        panic!("not quiescent after {waves_max} waves, {} under way: {reports:?}", self.under_way());
    }

    pub(crate) fn stats(&self) -> ManagementStats {
        let mut stats = ManagementStats::default();
        self.channels.iter().for_each(|channel| stats.merge(channel.management()));
        stats
    }

    /// The owner of a key and its value. No message may be under way.
    pub(crate) fn main(&self, key: Key) -> (usize, Vec<f32>) {
        let mains: Vec<_> = self.nodes.iter().map(|node| node.inspect().value(key)).collect();
        assert_eq!(mains.iter().flatten().count(), 1, "{key:?} has one main copy");
        let at = mains.iter().position(Option::is_some).expect("one main copy");
        (at, mains[at].clone().expect("one main copy"))
    }

    /// Checks what must hold when no message is under way: sums, equal copies, registrations of holders.
    pub(crate) fn check_end(&mut self) {
        for key in (0..self.setup.keys).map(Key) {
            let (owner, main) = self.main(key);
            let bits = |value: &[f32]| value.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            for (node, shared) in self.nodes.iter().enumerate() {
                if let Some(copy) = shared.inspect().copy(key) {
                    assert_eq!(bits(&copy), bits(&main), "{key:?}: {copy:?} at {node}, {main:?} at {owner}");
                }
            }
            let is_replica = |node: &usize| self.role(*node, key) == Role::Replica;
            let replicas: Vec<usize> = (0..self.setup.nodes).filter(is_replica).collect();
            let hub = self.channels[self.place(owner, key)].hub(key);
            let holders = hub.map_or(&[][..], |hub| hub.holders());
            let recorded: Vec<usize> = holders.iter().map(|holder| holder.node.index()).collect();
            assert_eq!(
                recorded, replicas,
                "{key:?}: holders registered at {owner}, and nodes with a replica"
            );
            for holder in holders {
                assert_eq!(Some(holder.generation), self.watch.generation(holder.node.index(), key));
            }
            let hubs: usize = self.channels.iter().filter(|channel| channel.hub(key).is_some()).count();
            assert_eq!(
                hubs,
                usize::from(!replicas.is_empty()),
                "{key:?}: only an owner with holders has registrations"
            );
            if self.role(owner, key) != Role::Static {
                assert_eq!(self.role(owner, key) == Role::Hub, !replicas.is_empty(), "{key:?}");
            }
            self.check_sums(key, &main);
        }
        for worker in &self.workers {
            assert!(worker.local.is_idle() && worker.local.outstanding().is_empty());
            worker.check_reads(&self.workers, &self.watch);
        }
    }

    /// Delivers the rest, and checks what must hold then.
    pub(crate) fn end(mut self) {
        self.drain();
        self.quiesce(20);
        self.check_end();
    }

    fn check_sums(&self, key: Key, main: &[f32]) {
        if self.workers.iter().any(|worker| worker.has_set(key)) {
            return;
        }
        let mut fractions = f64::from(INITIAL);
        for (me, worker) in self.workers.iter().enumerate() {
            assert_eq!(main[me], worker.pushes(key) as f32, "{key:?}: pushes of worker {me} in {main:?}");
            fractions += worker.fractions(key);
        }
        let found = f64::from(main[self.workers.len()]);
        assert!(
            (found - fractions).abs() < 1e-5 * (1.0 + fractions.abs()),
            "{key:?}: {found} instead of {fractions}"
        );
    }
}
