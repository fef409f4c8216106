//! The operations of a worker, and the records that are kept of them.

use crate::world::{KEYS, LANES, REGISTER, World};
use intendant_checkers::history::{History, RecordId};
use intendant_checkers::lanes;
use intendant_checkers::registers::{ReadId, Registers};
use intendant_core::{Key, NodeId, WorkerId};
use intendant_engine::{Completion, Input, Local, Started};
use intendant_techniques::{Initiator, Role};
use intendant_wire::OpId;
use shuttle::rand::Rng;
use shuttle::sync::mpsc::Receiver;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

/// The most operations that a worker has under way.
const AHEAD: usize = 3;

/// What all workers did and saw.
pub(crate) struct Book {
    pub(crate) history: History,
    pub(crate) registers: Registers,
}

/// How often things happened that a set of schedules should contain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach {
    /// Keys served by the worker itself, and keys handed to a channel.
    pub(crate) local: u64,
    pub(crate) remote: u64,
    /// Of the latter, keys that were read in a window instead.
    pub(crate) windows: u64,
    /// Keys that were handed to the channel and were here when the worker looked again.
    pub(crate) came_meanwhile: u64,
    /// Of the pulls that serve only local keys: keys that were served, and keys that were not.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Keys that were here when a worker asked for them.
    pub(crate) localized_at_once: u64,
    /// Rows changed in place, and keys that had to be pushed instead.
    pub(crate) lent: u64,
    pub(crate) not_lent: u64,
}

#[derive(Clone, Copy)]
enum Note {
    Lanes(RecordId),
    Register(ReadId),
}

struct Ahead {
    op: OpId,
    keys: Vec<Key>,
    what: DecisionKind,
}

enum DecisionKind {
    Pull(Vec<Note>),
    Push(Vec<RecordId>),
    Localize,
}

pub(crate) struct Worker {
    node: usize,
    /// The number of this worker among all workers.
    me: usize,
    world: Arc<World>,
    /// Never held where shuttle can switch threads.
    book: Arc<Mutex<Book>>,
    local: Local<f32>,
    deliveries: Receiver<Completion>,
    ahead: VecDeque<Ahead>,
    reach: Reach,
}

impl Worker {
    pub(crate) fn new(
        me: usize,
        world: Arc<World>,
        book: Arc<Mutex<Book>>,
        deliveries: Receiver<Completion>,
    ) -> Self {
        let per_node = world.setup.workers_per_node;
        let mut local = Local::new(WorkerId((me % per_node) as u16), &world.layout);
        let (node, ahead, reach) = (me / per_node, VecDeque::new(), Reach::default());
        world.nodes[node].favour(&mut local);
        Self { node, me, world, book, local, deliveries, ahead, reach }
    }

    pub(crate) fn run(mut self) -> Reach {
        for _ in 0..self.world.setup.calls {
            self.call();
            while self.ahead.len() > if self.world.setup.asynchronous { AHEAD } else { 0 } {
                self.finish_one();
            }
        }
        while !self.ahead.is_empty() {
            self.finish_one();
        }
        assert!(self.local.is_idle() && self.local.outstanding().is_empty());
        let access = self.local.stats();
        assert_eq!(access.local + access.remote, access.pull_keys + access.push_keys);
        let (local, remote, windows) = (access.local, access.remote, access.windows);
        Reach { local, remote, windows, ..self.reach }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no thread panics with the book in hand")
    }

    fn call(&mut self) {
        let mut rng = shuttle::rand::thread_rng();
        let (word, count) = (rng.gen_range(0..12), rng.gen_range(1..=2));
        // Sometimes the same key twice.
        let keys: Vec<Key> = (0..count).map(|_| Key(rng.gen_range(0..KEYS))).collect();
        match word {
            0..4 => self.pull(keys),
            4..6 => self.push(rng.gen_range(0..LANES)),
            6 => self.update(rng.gen_range(0..LANES)),
            7 => self.set(),
            8..11 => self.relocate(keys),
            _ => self.pull_if_local(&keys),
        }
    }

    fn pull(&mut self, keys: Vec<Key>) {
        let notes = self.note_pulls(&keys);
        let mut values = vec![0.0; self.elements(&keys)];
        let world = Arc::clone(&self.world);
        let keep = world.setup.asynchronous;
        let node = &world.nodes[self.node];
        let started = if keep {
            node.pull_kept(&mut self.local, &keys)
        } else {
            node.pull(&mut self.local, &keys, &mut values)
        };
        let op = self.submit(started.expect("the keys exist"), &keys);
        match op {
            None => self.saw(&keys, &notes, &values),
            Some(op) if keep => self.ahead.push_back(Ahead { op, keys, what: DecisionKind::Pull(notes) }),
            Some(op) => {
                while !self.local.is_done(op) {
                    self.receive(Some((op, &mut values)));
                }
                self.saw(&keys, &notes, &values);
            }
        }
    }

    fn push(&mut self, key: u64) {
        let (world, key) = (Arc::clone(&self.world), Key(key));
        let record = self.book().history.push(self.me, key, None);
        let mut update = Vec::new();
        lanes::push(self.me, world.setup.workers(), world.layout.len(key), &mut update);
        let started = world.nodes[self.node].push(&mut self.local, &[key], &update);
        match self.submit(started.expect("the key exists"), &[key]) {
            None => self.book().history.pushed(record, None),
            Some(op) => {
                self.ahead.push_back(Ahead { op, keys: vec![key], what: DecisionKind::Push(vec![record]) })
            }
        }
    }

    /// Reads a row and adds to this worker's lane, in place: a pull and a push with nothing between them.
    fn update(&mut self, key: u64) {
        let world = Arc::clone(&self.world);
        let mut update: Vec<f32> = Vec::new();
        lanes::push(self.me, world.setup.workers(), world.layout.len(Key(key)), &mut update);
        let Some(mut row) = world.nodes[self.node].lend(&self.local, Key(key)) else {
            self.reach.not_lent += 1;
            return self.push(key);
        };
        let before = row.to_vec();
        row.iter_mut().zip(&update).for_each(|(value, update)| *value += *update);
        drop(row);
        self.local.count_updates(1, 0);
        self.reach.lent += 1;
        let notes = self.note_pulls(&[Key(key)]);
        self.saw(&[Key(key)], &notes, &before);
        let mut book = self.book();
        let record = book.history.push(self.me, Key(key), None);
        book.history.pushed(record, None);
    }

    fn set(&mut self) {
        let world = Arc::clone(&self.world);
        let tag = self.book().registers.set(self.me, REGISTER);
        let started = world.nodes[self.node].set(&mut self.local, &[REGISTER], &[tag as f32; 2]);
        if let Some(op) = self.submit(started.expect("the key exists"), &[REGISTER]) {
            self.ahead.push_back(Ahead { op, keys: vec![REGISTER], what: DecisionKind::Push(Vec::new()) });
        }
    }

    /// Makes keys move: to this node if requesters start relocations, otherwise from this node to a random
    /// one.
    fn relocate(&mut self, keys: Vec<Key>) {
        let world = Arc::clone(&self.world);
        if world.setup.policy.relocation == Some(Initiator::Owner) {
            let to = NodeId(shuttle::rand::thread_rng().gen_range(0..world.setup.nodes as u16));
            for key in keys {
                let (channel, keys) = (world.layout.channel(key), vec![key]);
                let worker = self.local.worker().index();
                world.submit(self.node, worker, channel, Input::Relocate { keys, to });
            }
            return;
        }
        let started = world.nodes[self.node].localize(&mut self.local, &keys, world.now());
        match self.submit(started.expect("the keys exist"), &[]) {
            None => self.reach.localized_at_once += keys.len() as u64,
            Some(op) => self.ahead.push_back(Ahead { op, keys, what: DecisionKind::Localize }),
        }
    }

    fn pull_if_local(&mut self, keys: &[Key]) {
        let mut values = vec![f32::NAN; self.elements(keys)];
        let (world, mut here) = (Arc::clone(&self.world), Vec::new());
        let done = world.nodes[self.node].pull_if_local(&mut self.local, keys, &mut values, &mut here);
        done.expect("the keys exist");
        let mut at = 0;
        for (key, here) in keys.iter().zip(here) {
            let value = &values[at..at + world.layout.len(*key)];
            at += value.len();
            if here {
                self.reach.hits += 1;
                let notes = self.note_pulls(&[*key]);
                self.saw(&[*key], &notes, value);
            } else {
                self.reach.misses += 1;
                assert!(value.iter().all(|v| v.is_nan()), "a place that was to be left alone");
            }
        }
    }

    fn submit(&mut self, started: Started, keys: &[Key]) -> Option<OpId> {
        if started.op.is_some() && keys.len() == 1 {
            let role = self.world.nodes[self.node].inspect().role(keys[0]).0;
            self.reach.came_meanwhile += u64::from(role == Role::Owner);
        }
        for (channel, submission) in started.submissions {
            let worker = self.local.worker().index();
            self.world.submit(self.node, worker, channel, Input::Submit(submission));
        }
        started.op
    }

    fn receive(&mut self, sink: Option<(OpId, &mut [f32])>) {
        let completion = self.deliveries.recv().expect("the channels are there");
        self.local.complete(completion, &self.world.layout, sink);
    }

    fn finish_one(&mut self) {
        let Some(Ahead { op, keys, what }) = self.ahead.pop_front() else { return };
        while !self.local.is_done(op) {
            self.receive(None);
        }
        match what {
            DecisionKind::Pull(notes) => {
                let mut values = vec![0.0; self.local.kept(op).expect("it is done and was kept")];
                self.local.take(op, &self.world.layout, &mut values);
                self.saw(&keys, &notes, &values);
            }
            DecisionKind::Push(records) => {
                let mut book = self.book();
                records.into_iter().for_each(|record| book.history.pushed(record, None));
            }
            DecisionKind::Localize => {}
        }
    }

    fn elements(&self, keys: &[Key]) -> usize {
        keys.iter().map(|key| self.world.layout.len(*key)).sum()
    }

    fn note_pulls(&self, keys: &[Key]) -> Vec<Note> {
        let mut book = self.book();
        keys.iter()
            .map(|key| match *key {
                REGISTER => Note::Register(book.registers.pull(self.me, REGISTER)),
                key => Note::Lanes(book.history.pull(self.me, key, None)),
            })
            .collect()
    }

    fn saw(&self, keys: &[Key], notes: &[Note], values: &[f32]) {
        let mut seen = vec![0; self.world.setup.workers()];
        let (mut book, mut at) = (self.book(), 0);
        for (key, note) in keys.iter().zip(notes) {
            let value = &values[at..at + self.world.layout.len(*key)];
            at += value.len();
            match note {
                Note::Lanes(record) => {
                    lanes::read(*key, value, &mut seen).unwrap_or_else(|error| panic!("{error}"));
                    book.history.pulled(*record, &seen, None);
                }
                Note::Register(id) => {
                    book.registers.pulled(*id, value).unwrap_or_else(|error| panic!("{error}"));
                }
            }
        }
    }
}
