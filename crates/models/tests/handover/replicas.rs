//! Workers against channels over copies: the fast paths of workers read and add to replicas, main copies with
//! replicas at other nodes, and static replicas, while channels collect, merge and apply updates.
//!
//! No update may be lost or counted twice: in the end, every lane has as many pushes as its worker made, and
//! all copies are bit-equal. A worker sees exactly its own pushes, and never fewer pushes of another worker
//! than before. Under bounded staleness, it sees all pushes that its clock requires.

use crate::world::{LANES, Setup, World};
use intendant_checkers::lanes;
use intendant_core::{ChannelId, Clock, Key, NodeId, WorkerId};
use intendant_engine::{Completion, Input, Local, Shared, Started};
use intendant_techniques::clocks::NodeClock;
use intendant_techniques::{Replicas, Role};
use shuttle::rand::Rng;
use shuttle::sync::mpsc::Receiver;
use std::sync::Arc;

/// How often things happened that a set of schedules should contain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach {
    /// Accesses served by the worker itself, by the role of this node for the key when the worker looks
    /// again.
    pub(crate) on_hub: u64,
    pub(crate) on_replica: u64,
    pub(crate) on_static: u64,
    pub(crate) deferred: u64,
    /// Rows changed in place.
    pub(crate) lent: u64,
    /// Replicas that were urgent when all workers had ended: the next look had to send their updates.
    pub(crate) urgent: u64,
}

struct Read {
    key: Key,
    clock: u32,
    own: usize,
    seen: Vec<u32>,
}

/// What a worker did.
pub(crate) struct Log {
    pub(crate) reach: Reach,
    reads: Vec<Read>,
    /// By key, the clocks of its pushes.
    pushes: Vec<Vec<u32>>,
}

pub(crate) struct ReplicaWorker {
    node: usize,
    me: usize,
    world: Arc<World>,
    local: Local<f32>,
    deliveries: Receiver<Completion>,
    clock: u32,
    log: Log,
}

impl ReplicaWorker {
    pub(crate) fn new(me: usize, world: Arc<World>, deliveries: Receiver<Completion>) -> Self {
        let per_node = world.setup.workers_per_node;
        let mut local = Local::new(WorkerId((me % per_node) as u16), &world.layout);
        world.nodes[me / per_node].favour(&mut local);
        let (reach, reads, pushes) = (Reach::default(), Vec::new(), vec![Vec::new(); LANES as usize]);
        let log = Log { reach, reads, pushes };
        Self { node: me / per_node, me, world, local, deliveries, clock: 0, log }
    }

    pub(crate) fn run(mut self) -> Log {
        let replicas = self.world.setup.policy.replicas;
        let by_intent = self.world.setup.policy.intents.is_some();
        let directed = matches!(replicas, Some(Replicas::Directed { .. })) && !by_intent;
        let clocked = replicas.is_some_and(Replicas::is_clocked);
        for _ in 0..self.world.setup.calls {
            let key = Key(shuttle::rand::thread_rng().gen_range(0..LANES));
            match shuttle::rand::thread_rng().gen_range(0..12) {
                0..3 => self.pull(key),
                3..5 => self.push(key),
                5..7 => self.update(key),
                7..9 if by_intent => {
                    let start = self.clock + shuttle::rand::thread_rng().gen_range(0..3);
                    let window = Clock(start)..Clock(start + 2);
                    let wake = self.shared().clocks().intend(self.local.worker(), &[key], window);
                    self.wake(&wake.expect("the key exists"));
                }
                9..11 if by_intent => {
                    self.clock += 1;
                    let told = self.shared().clocks().advance(&mut self.local, Clock(self.clock));
                    self.wake(&told.wake);
                }
                7..9 if directed => self.input(key, Input::Replicate { keys: vec![key] }),
                9 if directed => self.input(key, Input::Unreplicate { keys: vec![key] }),
                10 if directed => {
                    let to = NodeId(shuttle::rand::thread_rng().gen_range(0..self.world.setup.nodes as u16));
                    self.input(key, Input::Relocate { keys: vec![key], to });
                }
                7..11 if clocked => {
                    self.clock += 1;
                    let told = self.shared().clocks().advance(&mut self.local, Clock(self.clock));
                    self.tell(told.clock);
                }
                _ => self.input(key, Input::Tick),
            }
        }
        self.end()
    }

    /// Updates one key often, through pushes and in place, while the channel looks. Nodes that do not own it
    /// have a replica.
    pub(crate) fn run_urgent(mut self) -> Log {
        let key = Key(0);
        self.input(key, Input::Replicate { keys: vec![key] });
        for _ in 0..self.world.setup.calls {
            match shuttle::rand::thread_rng().gen_range(0..8) {
                0..3 => self.push(key),
                3..6 => self.update(key),
                _ => self.input(key, Input::Tick),
            }
        }
        self.end()
    }

    fn end(self) -> Log {
        let told = self.shared().clocks().retire(self.local.worker());
        self.tell(told.clock);
        self.wake(&told.wake);
        assert!(self.local.is_idle());
        self.log
    }

    fn shared(&self) -> Arc<Shared<f32>> {
        Arc::clone(&self.world.nodes[self.node])
    }

    fn input(&self, key: Key, input: Input) {
        self.world.submit(self.node, self.local.worker().index(), self.world.layout.channel(key), input);
    }

    fn tell(&self, clock: Option<NodeClock>) {
        let Some(clock) = clock else { return };
        for channel in 0..self.world.setup.channels {
            let (worker, channel) = (self.local.worker().index(), ChannelId(channel as u16));
            self.world.submit(self.node, worker, channel, Input::Clock(clock));
        }
    }

    fn wake(&self, channels: &[ChannelId]) {
        for channel in channels {
            self.world.submit(self.node, self.local.worker().index(), *channel, Input::Wake);
        }
    }

    fn pull(&mut self, key: Key) {
        let mut value = vec![0.0; self.world.layout.len(key)];
        let own = self.log.pushes[key.0 as usize].len();
        let started = self.shared().pull(&mut self.local, &[key], &mut value);
        self.wait(key, started.expect("the key exists"), &mut value);
        let mut seen = vec![0; self.world.setup.workers()];
        lanes::read_dusty(key, &value, &mut seen).unwrap_or_else(|error| panic!("{error}"));
        self.log.reads.push(Read { key, clock: self.clock, own, seen });
    }

    fn push(&mut self, key: Key) {
        self.log.pushes[key.0 as usize].push(self.clock);
        let mut update = Vec::new();
        lanes::push(self.me, self.world.setup.workers(), self.world.layout.len(key), &mut update);
        lanes::scatter(&mut update, shuttle::rand::thread_rng().gen_range(1..100) as f64 * 1e-4);
        let started = self.shared().push(&mut self.local, &[key], &update);
        self.wait(key, started.expect("the key exists"), &mut []);
    }

    /// Reads a row and adds to this worker's lane, in place.
    fn update(&mut self, key: Key) {
        let mut update: Vec<f32> = Vec::new();
        lanes::push(self.me, self.world.setup.workers(), self.world.layout.len(key), &mut update);
        lanes::scatter(&mut update, shuttle::rand::thread_rng().gen_range(1..100) as f64 * 1e-4);
        let shared = self.shared();
        let Some(mut row) = shared.lend(&self.local, key) else { return self.push(key) };
        let before = row.to_vec();
        row.iter_mut().zip(&update).for_each(|(value, update)| *value += *update);
        drop(row);
        self.log.reach.lent += 1;
        let mut seen = vec![0; self.world.setup.workers()];
        lanes::read_dusty(key, &before, &mut seen).unwrap_or_else(|error| panic!("{error}"));
        let own = self.log.pushes[key.0 as usize].len();
        self.log.reads.push(Read { key, clock: self.clock, own, seen });
        self.log.pushes[key.0 as usize].push(self.clock);
    }

    fn wait(&mut self, key: Key, started: Started, value: &mut [f32]) {
        let Started { op, submissions } = started;
        let reach = &mut self.log.reach;
        let Some(op) = op else {
            match self.world.nodes[self.node].inspect().role(key).0 {
                Role::Hub => reach.on_hub += 1,
                Role::Replica => reach.on_replica += 1,
                Role::Static => reach.on_static += 1,
                Role::Owner | Role::Absent | Role::Arriving | Role::Leaving => {}
            }
            return;
        };
        reach.deferred += 1;
        for (channel, submission) in submissions {
            let worker = self.local.worker().index();
            self.world.submit(self.node, worker, channel, Input::Submit(submission));
        }
        while !self.local.is_done(op) {
            let completion = self.deliveries.recv().expect("the channels are there");
            self.local.complete(completion, &self.world.layout, Some((op, value)));
        }
    }
}

/// Checks the values and the logs after the end.
pub(crate) fn check(setup: &Setup, world: &World, logs: &[Log]) {
    for key in (0..LANES).map(Key) {
        let Some(main) = world.value(key) else { continue };
        let mut lanes = vec![0; setup.workers()];
        lanes::read_dusty(key, &main, &mut lanes).unwrap_or_else(|error| panic!("{error}"));
        let pushes: Vec<u32> = logs.iter().map(|log| log.pushes[key.0 as usize].len() as u32).collect();
        assert_eq!(lanes, pushes, "{key:?}: the lanes, and what was pushed");
        for copy in world.nodes.iter().filter_map(|node| node.inspect().copy(key)) {
            assert!(copy.iter().zip(&main).all(|(c, m)| c.to_bits() == m.to_bits()), "{copy:?} {main:?}");
        }
    }
    let bound = world.nodes[0].clocks().staleness_bound();
    for (me, log) in logs.iter().enumerate() {
        let mut before = vec![vec![0; logs.len()]; LANES as usize];
        for Read { key, clock, own, seen } in &log.reads {
            let at = key.0 as usize;
            assert_eq!(seen[me] as usize, *own, "{key:?}: own pushes of {me}");
            for (lane, writer) in logs.iter().enumerate() {
                assert!(seen[lane] >= before[at][lane], "{key:?}: {lane} seen by {me} goes back");
                let Some(bound) = bound else { continue };
                let needed =
                    writer.pushes[at].iter().filter(|made| **made < clock.saturating_sub(bound)).count();
                assert!(seen[lane] as usize >= needed, "{key:?} at {clock}: {needed} of {lane} in {seen:?}");
            }
            before[at].clone_from(seen);
        }
    }
}
