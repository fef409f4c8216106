//! What a worker does, and the record of it.

use super::Cluster;
use super::watch::Watch;
use intendant_core::{ChannelId, Key};
use intendant_engine::{Completion, Input, Local, Started};
use intendant_wire::OpId;
use std::collections::VecDeque;

/// A read of one key.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) key: Key,
    /// The worker's clock.
    pub(crate) clock: u32,
    /// Number of the worker's pushes to the key before the read.
    own: u32,
    /// The tag to which the worker set the key before the read; 0 if it did not.
    set: u32,
    pub(crate) value: Option<Vec<f32>>,
}

/// An operation under way.
struct Ahead {
    op: OpId,
    /// What it reads, as positions in [`Worker::reads`].
    reads: Option<std::ops::Range<usize>>,
}

pub(crate) struct Worker {
    me: usize,
    pub(crate) local: Local<f32>,
    pub(crate) inbox: VecDeque<Completion>,
    ahead: Vec<Ahead>,
    /// Clocks that the worker has not reported to the channels yet.
    pub(crate) unreported: VecDeque<(ChannelId, Input)>,
    pub(crate) clock: u32,
    pub(crate) reads: Vec<Read>,
    /// Per key, the clock of each push.
    pushes: Vec<Vec<u32>>,
    fractions: Vec<f64>,
    sets: Vec<u32>,
}

impl Worker {
    pub(crate) fn new(me: usize, local: Local<f32>, keys: u64) -> Self {
        let keys = keys as usize;
        Self {
            me,
            local,
            inbox: VecDeque::new(),
            ahead: Vec::new(),
            unreported: VecDeque::new(),
            clock: 0,
            reads: Vec::new(),
            pushes: vec![Vec::new(); keys],
            fractions: vec![0.0; keys],
            sets: vec![0; keys],
        }
    }

    pub(crate) fn pushes(&self, key: Key) -> usize {
        self.pushes[key.0 as usize].len()
    }

    /// Number of pushes at clocks before `clock`.
    pub(crate) fn pushes_before(&self, key: Key, clock: u32) -> usize {
        self.pushes[key.0 as usize].iter().filter(|at| **at < clock).count()
    }

    pub(crate) fn fractions(&self, key: Key) -> f64 {
        self.fractions[key.0 as usize]
    }

    pub(crate) fn has_set(&self, key: Key) -> bool {
        self.sets[key.0 as usize] != 0
    }

    pub(crate) fn me(&self) -> usize {
        self.me
    }

    /// Number of operations under way.
    pub(crate) fn ahead(&self) -> usize {
        self.ahead.len()
    }

    fn note_read(&mut self, key: Key) {
        let at = key.0 as usize;
        let (own, set) = (self.pushes[at].len() as u32, self.sets[at]);
        self.reads.push(Read { key, clock: self.clock, own, set, value: None });
    }

    /// Checks what this worker read, in the order of its calls: its own writes, and values that do not go
    /// back.
    pub(crate) fn check_reads(&self, workers: &[Self], watch: &Watch) {
        let keys = self.pushes.len();
        let mut seen = vec![vec![0.0_f32; workers.len()]; keys];
        let mut tags = vec![0.0_f32; keys];
        for read in &self.reads {
            let key = read.key.0 as usize;
            let value = read.value.as_ref().expect("the read has ended");
            let tag = *value.last().expect("a tag");
            assert!(tag == 0.0 || watch.is_tag(read.key, tag), "{read:?}: no worker set {tag}");
            for before in [tags[key], read.set as f32] {
                assert!(watch.follows(read.key, before, tag), "{read:?} of {}, after {before}", self.me);
            }
            tags[key] = tag;
            if workers.iter().any(|worker| worker.sets[key] != 0) {
                continue;
            }
            assert_eq!(value[self.me], read.own as f32, "{read:?} of {}: its own pushes", self.me);
            for (lane, seen) in seen[key].iter_mut().enumerate() {
                assert!(value[lane] >= *seen, "{read:?} of {}: lane {lane} was at {seen}", self.me);
                *seen = value[lane];
            }
        }
    }
}

impl Cluster {
    fn start(&mut self, me: usize, started: Started, reads: Option<std::ops::Range<usize>>) {
        for (channel, submission) in started.submissions {
            self.submit(me, channel, Input::Submit(submission));
        }
        if let Some(op) = started.op {
            self.workers[me].ahead.push(Ahead { op, reads });
        }
    }

    pub(crate) fn pull(&mut self, me: usize, keys: &[Key]) {
        let node = me / self.setup.workers;
        let first = self.workers[me].reads.len();
        keys.iter().for_each(|key| self.workers[me].note_read(*key));
        let reads = first..first + keys.len();
        let local = &mut self.workers[me].local;
        let started = self.nodes[node].pull_kept(local, keys).expect("the keys exist");
        self.watch.trace(|| format!("worker {me} pulls {keys:?}: {:?}", started.op));
        self.start(me, started, Some(reads));
        self.finish(me);
    }

    /// Reads the key if its node can serve it; false if not.
    pub(crate) fn pull_if_local(&mut self, me: usize, key: Key) -> bool {
        let (node, len) = (me / self.setup.workers, self.setup.len());
        let (mut value, mut here) = (vec![0.0; len], Vec::new());
        let local = &mut self.workers[me].local;
        self.nodes[node].pull_if_local(local, &[key], &mut value, &mut here).expect("the key exists");
        if here[0] {
            self.watch.trace(|| format!("worker {me} reads {key:?}: {value:?}"));
            self.workers[me].note_read(key);
            self.workers[me].reads.last_mut().expect("just noted").value = Some(value);
        }
        here[0]
    }

    /// Pushes 1 to the worker's lane, and a random fraction.
    pub(crate) fn push(&mut self, me: usize, key: Key) {
        let (node, len) = (me / self.setup.workers, self.setup.len());
        let fraction = self.dice.below(1000) as f32 * 1e-3 - 0.4;
        let mut update = vec![0.0; len];
        (update[me], update[len - 2]) = (1.0, fraction);
        let worker = &mut self.workers[me];
        worker.pushes[key.0 as usize].push(worker.clock);
        worker.fractions[key.0 as usize] += f64::from(fraction);
        let started = self.nodes[node].push(&mut worker.local, &[key], &update).expect("the key exists");
        self.watch.trace(|| format!("worker {me} writes {key:?}: {:?} {update:?}", started.op));
        self.start(me, started, None);
        self.check();
    }

    pub(crate) fn set(&mut self, me: usize, key: Key) {
        let (node, len) = (me / self.setup.workers, self.setup.len());
        let tag = self.watch.tag(key);
        let mut value = vec![0.0; len];
        value[len - 1] = tag as f32;
        let worker = &mut self.workers[me];
        worker.sets[key.0 as usize] = tag;
        let started = self.nodes[node].set(&mut worker.local, &[key], &value).expect("the key exists");
        self.start(me, started, None);
        self.check();
    }

    pub(crate) fn localize(&mut self, me: usize, key: Key) {
        let local = &mut self.workers[me].local;
        let started = self.nodes[me / self.setup.workers].localize(local, &[key], self.now);
        self.start(me, started.expect("the key exists"), None);
    }

    /// Asks for an all-reduce of the static replicas.
    pub(crate) fn synchronize(&mut self, me: usize) {
        self.watch.trace(|| format!("worker {me} synchronizes"));
        let started = self.nodes[me / self.setup.workers].synchronize(&mut self.workers[me].local);
        self.start(me, started, None);
    }

    /// Processes a completion; false if there is none.
    pub(crate) fn receive(&mut self, me: usize) -> bool {
        let Some(completion) = self.workers[me].inbox.pop_front() else { return false };
        self.workers[me].local.complete(completion, &self.layout, None);
        self.finish(me);
        true
    }

    /// Processes all completions of a worker.
    pub(crate) fn receive_all(&mut self, me: usize) {
        while self.receive(me) {}
    }

    /// Notes the values that finished operations have read.
    fn finish(&mut self, me: usize) {
        let (len, mut ended) = (self.setup.len(), Vec::new());
        let layout = &self.layout;
        let worker = &mut self.workers[me];
        let local = &mut worker.local;
        worker.ahead.retain_mut(|ahead| {
            let done = local.is_done(ahead.op);
            if done && let Some(reads) = ahead.reads.take() {
                let mut values = vec![0.0; local.kept(ahead.op).expect("it was kept")];
                local.take(ahead.op, layout, &mut values);
                ended.push((reads, values));
            }
            !done
        });
        for (reads, values) in ended {
            for (at, read) in reads.enumerate() {
                let value = values[at * len..(at + 1) * len].to_vec();
                self.watch.trace(|| format!("worker {me} got {value:?}"));
                let read = &mut self.workers[me].reads[read];
                let key = read.key;
                read.value = Some(value.clone());
                for (lane, worker) in self.workers.iter().enumerate() {
                    let pushes = worker.pushes(key) as f32;
                    assert!(
                        value[lane] <= pushes,
                        "{key:?}: {value:?}, but worker {lane} has pushed {pushes} times"
                    );
                }
            }
        }
    }

    /// Processes completions and delivers messages until all workers are idle. Panics if no message is left
    /// and a worker still waits.
    pub(crate) fn drain(&mut self) {
        loop {
            for me in 0..self.workers.len() {
                self.receive_all(me);
            }
            if self.workers.iter().all(|worker| worker.ahead.is_empty()) {
                return;
            }
            if !self.deliver_any() {
                let waiting: Vec<usize> = self.workers.iter().map(Worker::ahead).collect();
                panic!("no message is under way, and workers wait for operations: {waiting:?}");
            }
        }
    }
}
