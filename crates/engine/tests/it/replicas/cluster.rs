//! Nodes with their links and inboxes in hand: a seed decides who goes next.
//!
//! Messages between two nodes keep their order on each channel, and so does what the workers of a node hand to a channel, which
//! has one inbox for all of them; nothing else does. Every message goes through the codec, as on a wire.

use super::watch::Watch;
use super::worker::Worker;
use intendant_core::{ChannelId, Key, KeyOrder, Layout, NodeId, Tick, WorkerId, random};
use intendant_engine::quiesce::Waves;
use intendant_engine::{
    Action, Channel, ChannelReport, Input, Local, ManagementStats, ReplicationConfig, Shared, SharedConfig,
    Storage,
};
use intendant_techniques::{Policy, Role, SlotState};
use intendant_wire::Message;
use std::collections::VecDeque;
use std::sync::Arc;

/// Says which seed a test failed with.
pub(crate) struct Seed(pub(crate) u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with seed {}", self.0);
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
    pub(crate) copies: ReplicationConfig,
}

impl Setup {
    /// Of each key: a lane per worker that counts its pushes, one element for fractions, one that is only set.
    pub(crate) fn len(&self) -> usize {
        self.nodes * self.workers + 2
    }
}

pub(crate) struct Cluster {
    pub(crate) setup: Setup,
    pub(crate) layout: Arc<Layout>,
    pub(crate) nodes: Vec<Arc<Shared<f32>>>,
    /// Node by node; the index is a *place*.
    pub(crate) channels: Vec<Channel<f32>>,
    /// Node by node.
    pub(crate) workers: Vec<Worker>,
    /// By place, then by sending node; the place of the node itself is for its workers.
    ways: Vec<Vec<VecDeque<Input>>>,
    /// Parallel to `ways`: which of them are slow at the moment.
    slow: Vec<Vec<bool>>,
    pub(crate) now: Tick,
    pub(crate) dice: Dice,
    pub(crate) watch: Watch,
    /// Messages delivered so far.
    pub(crate) delivered: u64,
}

impl Cluster {
    pub(crate) fn new(setup: Setup, seed: u64) -> Self {
        let layout = Layout::builder().range("k", setup.keys, setup.len()).nodes(setup.nodes);
        let layout = layout.channels(setup.channels).shards(2 * setup.channels).order(KeyOrder::Range);
        let layout = Arc::new(layout.build().expect("a valid layout"));
        let node = |node| {
            Arc::new(Shared::new(SharedConfig {
                node: NodeId(node as u16),
                layout: Arc::clone(&layout),
                init: Arc::new(|_, value: &mut [f32]| value.fill(0.0)),
                storage: setup.storage,
                policy: setup.policy,
                replication: setup.copies.clone(),
                workers: setup.workers,
            }))
        };
        let nodes: Vec<_> = (0..setup.nodes).map(node).collect();
        let channel = |c| ChannelId(c as u16);
        let all = |shared: &Arc<Shared<f32>>| {
            let shared = Arc::clone(shared);
            (0..setup.channels).map(move |c| Channel::new(channel(c), Arc::clone(&shared)))
        };
        let channels: Vec<_> = nodes.iter().flat_map(all).collect();
        let local = |me| Local::new(WorkerId((me % setup.workers) as u16), &layout);
        let workers = (0..setup.nodes * setup.workers).map(|me| Worker::new(me, local(me), setup.keys));
        let ways = vec![vec![VecDeque::new(); setup.nodes]; channels.len()];
        Self {
            workers: workers.collect(),
            slow: vec![vec![false; setup.nodes]; channels.len()],
            now: Tick(1),
            dice: Dice(seed),
            watch: Watch::new(setup.nodes, setup.keys),
            delivered: 0,
            ways,
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
        self.nodes[node].slot(key).role
    }

    /// An input to a channel, here and now.
    pub(crate) fn handle(&mut self, place: usize, input: Input) {
        let (node, mut actions) = (self.node_of(place), Vec::new());
        if let Input::Message { message, .. } = &input {
            self.watch.hears(node, message, &self.nodes[node], &self.channels[place]);
        }
        let name = format!("{input:?}");
        let done = self.channels[place].handle(self.now, input, &mut actions);
        self.watch.trace(|| format!("{} @{node}: {name}\n      -> {actions:?}", self.now.0));
        done.unwrap_or_else(|violation| panic!("{violation} at node {node}: {name}"));
        self.watch.does(node, &actions, &self.nodes[node]);
        for action in actions {
            match action {
                Action::Send { to, message } => {
                    let message = Message::decode(message.encode()).expect("a frame");
                    let place = to.index() * self.setup.channels + place % self.setup.channels;
                    let from = NodeId(node as u16);
                    self.ways[place][node].push_back(Input::Message { from, message });
                }
                Action::Complete { worker, completion } => {
                    self.workers[node * self.setup.workers + worker.index()].inbox.push_back(completion);
                }
                Action::CompleteSnapshot { .. } => unreachable!("nobody asks for snapshots"),
            }
        }
        self.look();
    }

    /// What must hold at any time; and what is the state of main copies.
    pub(crate) fn look(&mut self) {
        for key in (0..self.setup.keys).map(Key) {
            let owners: Vec<usize> =
                (0..self.setup.nodes).filter(|n| self.role(*n, key).is_owner()).collect();
            // A sparse store makes values when they are first touched.
            let home = self.layout.home(key).index();
            let untouched = self.nodes[home].slot(key) == SlotState::default();
            let fixed = self.role(0, key) == Role::Static;
            if self.setup.policy.relocation.is_some() && !untouched && !fixed {
                let flying = self.watch.flying(key);
                assert_eq!(owners.len() + flying, 1, "{key:?}: owners {owners:?}, {flying} on their way");
            }
            for owner in owners {
                let value = self.nodes[owner].peek(key).expect("an owner holds the value");
                self.watch.main(key, *value.last().expect("a tag"));
            }
        }
    }

    /// A worker's input to a channel of its node, to come.
    pub(crate) fn submit(&mut self, me: usize, channel: ChannelId, input: Input) {
        let node = me / self.setup.workers;
        let place = node * self.setup.channels + channel.index();
        self.ways[place][node].push_back(input);
    }

    /// Delivers what comes next at `place` from `way`; false if there is nothing.
    pub(crate) fn deliver(&mut self, place: usize, way: usize) -> bool {
        let Some(input) = self.ways[place][way].pop_front() else { return false };
        self.delivered += 1;
        self.handle(place, input);
        true
    }

    /// What comes next on a way.
    pub(crate) fn next(&self, place: usize, way: usize) -> Option<&Input> {
        self.ways[place][way].front()
    }

    fn ready(&self, slow: bool) -> Vec<(usize, usize)> {
        let mut ready = Vec::new();
        for (place, ways) in self.ways.iter().enumerate() {
            for (way, queue) in ways.iter().enumerate() {
                if !queue.is_empty() && (slow || !self.slow[place][way]) {
                    ready.push((place, way));
                }
            }
        }
        ready
    }

    /// Delivers something; false if nothing is under way.
    pub(crate) fn deliver_any(&mut self) -> bool {
        let mut ready = self.ready(false);
        if ready.is_empty() || self.dice.percent(3) {
            ready = self.ready(true);
        }
        if ready.is_empty() {
            return false;
        }
        let (place, way) = ready[self.dice.below(ready.len())];
        self.deliver(place, way)
    }

    /// Delivers everything, in some order.
    pub(crate) fn deliver_all(&mut self) {
        while self.deliver_any() {}
    }

    pub(crate) fn under_way(&self) -> usize {
        self.ways.iter().flatten().map(VecDeque::len).sum()
    }

    /// Other ways are slow from now on.
    pub(crate) fn shift(&mut self) {
        let percent = [0, 30, 60][self.dice.below(3)];
        for place in 0..self.slow.len() {
            for way in 0..self.slow[place].len() {
                self.slow[place][way] = self.dice.percent(percent);
            }
        }
    }

    /// Lets time pass, and gives a tick to a channel for which it has come.
    pub(crate) fn tick(&mut self) {
        self.now.0 += self.dice.below(200) as u64;
        let place = self.dice.below(self.channels.len());
        if self.channels[place].due().is_some_and(|due| due <= self.now) {
            self.handle(place, Input::Tick);
        }
    }

    /// Workers have nothing to do; goes on until nothing is to be done any more. Panics after `waves_max` waves. Returns how
    /// many it took.
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
                assert_eq!(self.under_way(), 0, "quiescent while something is under way");
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

    /// The main copy of a key at the end.
    pub(crate) fn main(&self, key: Key) -> (usize, Vec<f32>) {
        let mains: Vec<_> = self.nodes.iter().map(|node| node.peek(key)).collect();
        assert_eq!(mains.iter().flatten().count(), 1, "{key:?} has one main copy");
        let at = mains.iter().position(Option::is_some).expect("one");
        (at, mains[at].clone().expect("one"))
    }

    /// All that must hold when nothing is under way: sums, equal copies, records of holders.
    pub(crate) fn check_end(&mut self) {
        for key in (0..self.setup.keys).map(Key) {
            let (owner, main) = self.main(key);
            let bits = |value: &[f32]| value.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            for (node, shared) in self.nodes.iter().enumerate() {
                if let Some(copy) = shared.peek_copy(key) {
                    assert_eq!(bits(&copy), bits(&main), "{key:?}: {copy:?} at {node}, {main:?} at {owner}");
                }
            }
            let is_replica = |node: &usize| self.role(*node, key) == Role::Replica;
            let replicas: Vec<usize> = (0..self.setup.nodes).filter(is_replica).collect();
            let hub = self.channels[self.place(owner, key)].hub(key);
            let holders = hub.map_or(&[][..], |hub| hub.holders());
            let recorded: Vec<usize> = holders.iter().map(|holder| holder.node.index()).collect();
            assert_eq!(recorded, replicas, "{key:?}: records at {owner}, and who has a replica");
            for holder in holders {
                assert_eq!(Some(holder.generation), self.watch.generation(holder.node.index(), key));
            }
            let hubs: usize = self.channels.iter().filter(|channel| channel.hub(key).is_some()).count();
            assert_eq!(
                hubs,
                usize::from(!replicas.is_empty()),
                "{key:?}: only owners with holders have records"
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

    fn check_sums(&self, key: Key, main: &[f32]) {
        if self.workers.iter().any(|worker| worker.has_set(key)) {
            return;
        }
        let mut fractions = 0.0;
        for (me, worker) in self.workers.iter().enumerate() {
            assert_eq!(main[me], worker.pushes(key) as f32, "{key:?}: pushes of worker {me} in {main:?}");
            fractions += worker.fractions(key);
        }
        let found = f64::from(main[self.workers.len()]);
        assert!(
            (found - fractions).abs() < 1e-3 * (1.0 + fractions.abs()),
            "{key:?}: {found} for {fractions}"
        );
    }
}
