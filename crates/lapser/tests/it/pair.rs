//! Two nodes, whose operations a test executes at the times that it chooses.

use intendant_lapser::{Answer, Declaration, Directory, Effect, Item, Node, Pace, Settings, Variant, Want};
use intendant_segment::Segment;

pub(crate) const KEY: u64 = 5;
pub(crate) const OWN: u64 = 6;

/// Node 0 produces [`KEY`], of three words, and [`OWN`], of one word; node 1 consumes [`KEY`].
pub(crate) struct Pair {
    pub(crate) directory: Directory,
    pub(crate) segments: [Segment; 2],
    pub(crate) nodes: [Node; 2],
    pub(crate) now_ns: u64,
}

pub(crate) const PACE: Pace =
    Pace { reread_ns_min: 10, reread_ns_max: 40, recheck_ns: 100, torn_reads_max: 3 };

impl Pair {
    pub(crate) fn new(variant: Variant) -> Self {
        let item = Item::new(KEY, 3);
        let declarations = [
            Declaration { incarnation: 1, produce: vec![item, Item::new(OWN, 1)], consume: vec![] },
            Declaration { incarnation: 2, produce: vec![], consume: vec![Want { item, slack: 2 }] },
        ];
        let directory = Directory::new(Settings::new(variant), &declarations).unwrap();
        let segments = [0, 1].map(|rank| Segment::new(directory.words(rank).unwrap()).unwrap());
        let nodes = [0, 1].map(|rank| Node::new(&directory, rank, &segments[rank], PACE).unwrap());
        Self { directory, segments, nodes, now_ns: 0 }
    }

    /// Node 0 sets [`KEY`] at `clock`; the clock is also the number of the call.
    pub(crate) fn set(&mut self, clock: u64) -> Vec<Effect> {
        let mut out = Vec::new();
        let value = [clock; 3];
        self.nodes[0].set(&self.segments[0], clock, KEY, clock, &value, &mut out).unwrap();
        out
    }

    /// Node 1 gets [`KEY`].
    pub(crate) fn get(&mut self, op: u64, clock: u64, slack: u64) -> Vec<Effect> {
        let mut out = Vec::new();
        self.nodes[1].get(&self.segments[1], self.now_ns, op, KEY, clock, slack, &mut out).unwrap();
        out
    }

    /// Node 1 looks at `now_ns`.
    pub(crate) fn check(&mut self, now_ns: u64) -> Vec<Effect> {
        self.now_ns = now_ns;
        let mut out = Vec::new();
        self.nodes[1].check(&self.segments[1], now_ns, &mut out);
        out
    }

    /// Node 1 receives a hint.
    pub(crate) fn hint(&mut self, hint: u32) -> Vec<Effect> {
        let mut out = Vec::new();
        self.nodes[1].hint(&self.segments[1], hint, &mut out);
        out
    }

    /// Executes the copy of an operation of `node`. Returns the id of the operation.
    pub(crate) fn copy(&self, node: usize, effect: &Effect) -> u64 {
        let (from, source, to, target, words, id) = match *effect {
            Effect::Read { from, remote, into, words, id } => (from, remote, node, into, words, id),
            Effect::Write { to, local, remote, words, id, .. } => (node, local, to, remote, words, id),
            Effect::Answer(_) | Effect::Meet | Effect::Release => panic!("{effect:?} copies nothing"),
        };
        let mut image = vec![0; words];
        self.segments[from].read(source, &mut image);
        self.segments[to].write(target, &image);
        id
    }

    /// Reports that an operation of `node` was executed.
    pub(crate) fn done(&mut self, node: usize, id: u64) -> Vec<Effect> {
        let mut out = Vec::new();
        self.nodes[node].done(&self.segments[node], self.now_ns, id, &mut out);
        out
    }

    /// Reports to `node` that the other node is gone.
    pub(crate) fn closed(&mut self, node: usize) -> Vec<Effect> {
        let mut out = Vec::new();
        self.nodes[node].closed(&self.segments[node], 1 - node, "killed", &mut out);
        out
    }

    /// Node 0 finishes, in call 8, and its farewell arrives at node 1. Returns the effects that follow before
    /// the meeting.
    pub(crate) fn finish(&mut self) -> Vec<Effect> {
        let mut out = Vec::new();
        self.nodes[0].finish(&self.segments[0], 8, &mut out).unwrap();
        let id = self.copy(0, &out[0]);
        let mut after = self.done(0, id);
        assert_eq!(after.pop(), Some(Effect::Meet));
        after
    }

    /// The value of [`KEY`] at node 1.
    pub(crate) fn value(&self) -> (u64, [u64; 3]) {
        let mut value = [0; 3];
        (self.nodes[1].value(&self.segments[1], KEY, &mut value).unwrap(), value)
    }
}

pub(crate) fn got(op: u64, clock: u64) -> Effect {
    Effect::Answer(Answer::Got { op, key: KEY, clock })
}

pub(crate) fn set_done(op: u64) -> Effect {
    Effect::Answer(Answer::Set { op })
}
