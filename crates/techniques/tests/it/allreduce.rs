//! The all-reduce in clusters of up to 17 nodes, over connections that keep the order of messages and nothing
//! else.

use intendant_core::{Element, NodeId, random};
use intendant_techniques::allreduce::{AllReduce, AllReduceError, Deltas, Part, PartError, Step};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A small generator of numbers, the same on every machine.
struct Dice {
    seed: u64,
    thrown: u64,
}

impl Dice {
    fn word(&mut self) -> u64 {
        self.thrown += 1;
        random::stream(self.seed, &[self.thrown])
    }

    fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }

    fn unit(&mut self) -> f64 {
        random::unit(self.word())
    }
}

/// A part of a message under way.
#[derive(Clone)]
struct Frame {
    round: u32,
    step: u8,
    last: bool,
    part: Part,
}

struct Cluster<E> {
    lens: Arc<[u32]>,
    nodes: Vec<AllReduce<E>>,
    queues: BTreeMap<(usize, usize), VecDeque<Frame>>,
    /// Messages sent, by round and step; calls are counted apart.
    sent: BTreeMap<(u32, u8), usize>,
    calls: BTreeMap<u32, usize>,
    /// Per node: its contributions and results, by round.
    contributions: Vec<Vec<Deltas<E>>>,
    results: Vec<Vec<Deltas<E>>>,
    dice: Dice,
}

impl<E: Element> Cluster<E> {
    fn new(nodes: usize, lens: &[u32], seed: u64) -> Self {
        let lens: Arc<[u32]> = Arc::from(lens);
        Self {
            nodes: (0..nodes)
                .map(|node| AllReduce::new(NodeId(node as u16), nodes, Arc::clone(&lens)))
                .collect(),
            lens,
            queues: BTreeMap::new(),
            sent: BTreeMap::new(),
            calls: BTreeMap::new(),
            contributions: vec![Vec::new(); nodes],
            results: vec![Vec::new(); nodes],
            dice: Dice { seed, thrown: 0 },
        }
    }

    fn doublings(&self) -> u8 {
        self.nodes.len().ilog2() as u8
    }

    fn is_extra(&self, node: usize) -> bool {
        node >= 1 << self.doublings()
    }

    /// Cuts messages into parts at random keys and sends them.
    fn send(&mut self, from: usize, steps: Vec<Step<E>>) {
        for Step { to, round, step, deltas } in steps {
            if step == 0 && !self.is_extra(from) {
                assert!(deltas.is_empty(), "a call carries nothing");
                *self.calls.entry(round).or_default() += 1;
            } else {
                *self.sent.entry((round, step)).or_default() += 1;
            }
            let queue = self.queues.entry((from, to.index())).or_default();
            let mut part = Deltas::new();
            for (index, delta) in deltas.iter(|index| self.lens[index as usize] as usize) {
                part.push(index, delta);
                if self.dice.below(3) == 0 {
                    let part = to_part(&std::mem::take(&mut part));
                    queue.push_back(Frame { round, step, last: false, part });
                }
            }
            queue.push_back(Frame { round, step, last: true, part: to_part(&part) });
            self.nodes[from].recycle(deltas);
        }
    }

    fn start(&mut self, node: usize, own: Deltas<E>) {
        let mut steps = Vec::new();
        let mut fresh = self.nodes[node].fresh();
        assert_eq!(*fresh, Deltas::new());
        Arc::get_mut(&mut fresh).expect("it is not shared").clone_from(&own);
        self.contributions[node].push(own);
        self.nodes[node].start(fresh, &mut steps);
        assert!(self.nodes[node].is_running());
        self.send(node, steps);
    }

    fn advance(&mut self, node: usize) {
        let mut steps = Vec::new();
        let round = self.nodes[node].round();
        if let Some(result) = self.nodes[node].advance(&mut steps) {
            assert_eq!(round, self.results[node].len() as u32);
            assert_eq!(self.nodes[node].round(), round + 1);
            assert!(!self.nodes[node].is_running());
            self.results[node].push((*result).clone());
            self.nodes[node].recycle(result);
        }
        self.send(node, steps);
    }

    /// A random connection with a frame.
    fn head(&mut self) -> Option<(usize, usize)> {
        let heads: Vec<_> =
            self.queues.iter().filter(|(_, queue)| !queue.is_empty()).map(|(at, _)| *at).collect();
        (!heads.is_empty()).then(|| heads[self.dice.below(heads.len())])
    }

    fn deliver(&mut self, (from, to): (usize, usize)) {
        let frame = self.queues.get_mut(&(from, to)).and_then(VecDeque::pop_front).expect("a head");
        let taken =
            self.nodes[to].receive(NodeId(from as u16), frame.round, frame.step, frame.last, frame.part);
        assert_eq!(taken, Ok(()), "node {to}: {:?}", self.nodes[to]);
    }

    fn deliver_all(&mut self, pair: (usize, usize)) {
        while self.queues[&pair].front().is_some() {
            self.deliver(pair);
        }
    }

    /// Random events until every node has completed `rounds` rounds. A node starts a round when it is called,
    /// or with the probability of its own `haste`, if any: some run ahead, some come late, some would never
    /// start by themselves.
    fn run(&mut self, rounds: u32, haste: &[f64], mut contribute: impl FnMut(&mut Dice) -> Deltas<E>) {
        for _ in 0..1_000_000 {
            if self.nodes.iter().all(|node| node.round() == rounds) {
                assert!(self.queues.values().all(VecDeque::is_empty), "messages that no node needed");
                assert!(self.nodes.iter().all(AllReduce::is_idle));
                return;
            }
            let node = self.dice.below(self.nodes.len());
            let state = &self.nodes[node];
            if !state.is_running() && state.round() < rounds {
                if self.dice.unit() < haste[node] || self.nodes[node].is_called() {
                    let own = contribute(&mut self.dice);
                    self.start(node, own);
                }
            } else if self.dice.below(2) == 0 {
                self.advance(node);
            }
            if self.dice.below(4) != 0
                && let Some(head) = self.head()
            {
                self.deliver(head);
            }
        }
        panic!("no progress: {:?}", self.nodes.iter().map(AllReduce::round).collect::<Vec<_>>());
    }

    /// All nodes have the same bits in every round, each step has its number of messages, and the sums are
    /// right within `tolerance` × the sum of absolute values.
    fn check(&self, rounds: u32, tolerance: f64) {
        let (all, doublings) = (self.nodes.len(), self.doublings());
        let power = 1 << doublings;
        let extra = all - power;
        for round in 0..rounds {
            let count = |step| self.sent.get(&(round, step)).copied().unwrap_or(0);
            assert_eq!(count(0), extra, "folds");
            assert!((1..=doublings).all(|step| count(step) == power), "sums: {:?}", self.sent);
            assert_eq!(count(doublings + 1), extra, "unfolds");
            assert!(self.calls.get(&round).is_none_or(|calls| *calls <= extra), "calls: {:?}", self.calls);

            let mut sums: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
            for contributions in &self.contributions {
                for (index, delta) in contributions[round as usize].iter(|i| self.lens[i as usize] as usize) {
                    let sum = sums.entry(index).or_insert_with(|| vec![(0.0, 0.0); delta.len()]);
                    for (sum, element) in sum.iter_mut().zip(delta) {
                        sum.0 += element.to_f64();
                        sum.1 += element.abs().to_f64();
                    }
                }
            }
            let bits = |node: usize| {
                let result = &self.results[node][round as usize];
                (result.indices.clone(), bytes(&result.values))
            };
            let first = bits(0);
            assert!(sums.keys().eq(&first.0), "keys of the result: {:?}", first.0);
            for node in 1..all {
                assert!(bits(node) == first, "nodes 0 and {node} differ in round {round}");
            }
            let expected = sums.values().flatten();
            for ((sum, absolute), got) in expected.zip(&self.results[0][round as usize].values) {
                let off = (got.to_f64() - sum).abs();
                assert!(off <= tolerance * absolute, "{got} instead of {sum} ± {}", tolerance * absolute);
            }
        }
    }
}

fn bytes<E: Element>(values: &[E]) -> Vec<u8> {
    let mut bytes = Vec::new();
    intendant_core::copy_to_bytes(values, &mut bytes);
    bytes
}

fn to_part<E: Element>(deltas: &Deltas<E>) -> Part {
    Part { indices: deltas.indices.clone(), values: bytes(&deltas.values).into() }
}

/// Updates of a random share of the keys: none and all of them are frequent.
fn sparse<E: Element>(dice: &mut Dice, lens: &[u32], element: impl Fn(&mut Dice) -> E) -> Deltas<E> {
    let share = [0.0, 0.1, 0.5, 1.0][dice.below(4)];
    let mut deltas = Deltas::new();
    for (index, len) in lens.iter().enumerate() {
        if dice.unit() < share {
            let delta: Vec<E> = (0..*len).map(|_| element(dice)).collect();
            deltas.push(index as u32, &delta);
        }
    }
    deltas
}

/// Numbers whose sizes differ so much that sums depend on the order of additions.
fn fraction(dice: &mut Dice) -> f32 {
    let size = 10f64.powi(dice.below(7) as i32 - 3);
    ((dice.unit() - 0.5) * size) as f32
}

fn whole(dice: &mut Dice) -> f32 {
    dice.below(2001) as f32 - 1000.0
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![9 => 1usize..=9, 1 => Just(16), 1 => Just(17)]
}

fn hastes(nodes: usize, dice: &mut Dice) -> Vec<f64> {
    let mut haste: Vec<f64> = (0..nodes).map(|_| [0.0, 0.02, 0.3, 1.0][dice.below(4)]).collect();
    haste[dice.below(nodes)] = 0.5;
    haste
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn all_nodes_get_the_same_bits_and_the_sum(
        nodes in sizes(),
        lens in prop::collection::vec(0u32..5, 0..24),
        seed: u64,
    ) {
        let mut cluster = Cluster::<f32>::new(nodes, &lens, seed);
        let haste = hastes(nodes, &mut cluster.dice);
        cluster.run(4, &haste, |dice| sparse(dice, &lens, fraction));
        cluster.check(4, f64::from(f32::EPSILON) * nodes as f64);
    }

    #[test]
    fn every_contribution_enters_exactly_one_round(
        nodes in sizes(),
        lens in prop::collection::vec(1u32..3, 1..12),
        seed: u64,
    ) {
        let mut cluster = Cluster::<f32>::new(nodes, &lens, seed);
        let haste = hastes(nodes, &mut cluster.dice);
        cluster.run(6, &haste, |dice| sparse(dice, &lens, whole));
        cluster.check(6, 0.0);
    }
}

/// One node starts by itself, and all others because they are called. If no node starts, no message is sent.
#[test]
fn one_node_that_starts_makes_all_others_start() {
    for nodes in (1..=9).chain([16, 17]) {
        for eager in 0..nodes {
            let mut cluster = Cluster::<f32>::new(nodes, &[1, 2], eager as u64);
            let mut haste = vec![0.0; nodes];
            haste[eager] = 1.0;
            cluster.run(2, &haste, |dice| sparse(dice, &[1, 2], whole));
            cluster.check(2, 0.0);
        }
        let mut silent = Cluster::<f32>::new(nodes, &[1, 2], 0);
        (0..nodes).for_each(|node| silent.advance(node));
        assert!(silent.nodes.iter().all(|node| node.is_idle() && !node.is_called() && node.round() == 0));
        assert!(silent.queues.is_empty());
    }
}

/// With equal haste, an extra node is called only if its partner was first.
#[test]
fn an_extra_node_that_has_folded_is_not_called() {
    let mut cluster = Cluster::<f64>::new(3, &[1], 0);
    let own = |value| Deltas { indices: vec![0], values: vec![value] };
    cluster.start(2, own(1.0));
    cluster.deliver((2, 0));
    assert!(cluster.nodes[0].is_called() && !cluster.nodes[1].is_called());
    cluster.start(0, own(2.0));
    assert_eq!(cluster.calls.len(), 0);
    cluster.advance(0);
    assert_eq!(cluster.queues[&(0, 1)][0].part, to_part(&own(3.0)));
}

#[test]
fn a_message_that_cannot_arrive_is_refused_and_changes_nothing() {
    use AllReduceError::{CallWithUpdates, Malformed, NotItsStep, OutOfTurn};
    use PartError::{Elements, NoSuchKey, Unordered};
    let mut cluster = Cluster::<f32>::new(5, &[2, 1, 2], 0);
    cluster.start(1, Deltas::new());
    let part = |indices: &[u32], elements: usize| {
        to_part(&Deltas { indices: indices.to_vec(), values: vec![1f32; elements] })
    };
    let none = || part(&[], 0);
    let mut refuse = |at: usize, from: u16, round, step, last, part, why: AllReduceError| {
        let before = format!("{:?}", cluster.nodes[at]);
        let error = cluster.nodes[at].receive(NodeId(from), round, step, last, part);
        assert_eq!(error, Err(why), "{why}");
        assert_eq!(before, format!("{:?}", cluster.nodes[at]));
    };
    let stray = |step, node| NotItsStep { step, node: NodeId(node) };
    refuse(1, 0, 0, 4, true, none(), stray(4, 1));
    refuse(1, 0, 0, 255, true, none(), stray(255, 1));
    refuse(1, 0, 0, 0, true, none(), stray(0, 1));
    refuse(1, 2, 0, 1, true, none(), stray(1, 1));
    refuse(1, 1, 0, 1, true, none(), stray(1, 1));
    refuse(1, 900, 0, 1, true, none(), stray(1, 1));
    refuse(0, 4, 0, 3, true, none(), stray(3, 0));
    let turn = |round, step, node, running| OutOfTurn { round, step, node: NodeId(node), running, at: 0 };
    refuse(1, 0, 2, 1, true, none(), turn(2, 1, 1, true));
    refuse(1, 0, u32::MAX, 1, true, none(), turn(u32::MAX, 1, 1, true));
    refuse(1, 0, 1, 1, true, none(), turn(1, 1, 1, true));
    refuse(2, 3, 1, 1, true, none(), turn(1, 1, 2, false));
    refuse(4, 0, 0, 3, true, none(), turn(0, 3, 4, false));
    refuse(4, 0, 0, 0, true, part(&[0], 2), CallWithUpdates { round: 0 });
    refuse(4, 0, 0, 0, false, none(), CallWithUpdates { round: 0 });
    let wrong = |part| Malformed { round: 0, step: 1, part };
    refuse(1, 0, 0, 1, true, part(&[3], 1), wrong(NoSuchKey { index: 3, keys: 3 }));
    refuse(1, 0, 0, 1, true, part(&[1, 1], 2), wrong(Unordered { index: 1, after: 1 }));
    refuse(1, 0, 0, 1, true, part(&[2, 0], 4), wrong(Unordered { index: 0, after: 2 }));
    refuse(1, 0, 0, 1, true, part(&[0, 1], 2), wrong(Elements { elements: 2, expected: 3 }));
    refuse(1, 0, 0, 1, true, part(&[], 1), wrong(Elements { elements: 1, expected: 0 }));

    let at = &mut cluster.nodes[1];
    assert_eq!(at.receive(NodeId(0), 0, 1, false, part(&[0, 1], 3)), Ok(()));
    let mut refuse = |part, why| assert_eq!(at.receive(NodeId(0), 0, 1, true, part), Err(wrong(why)));
    refuse(part(&[1, 2], 3), Unordered { index: 1, after: 1 });
    refuse(part(&[2], 1), Elements { elements: 1, expected: 2 });
    assert_eq!(at.receive(NodeId(0), 0, 1, true, part(&[2], 2)), Ok(()));
    let more = at.receive(NodeId(0), 0, 1, true, none());
    assert_eq!(more, Err(AllReduceError::AfterEnd { round: 0, step: 1 }));
}

#[test]
fn errors_say_what_the_other_node_sent_and_where_this_one_is() {
    let (round, step, node) = (2, 1, NodeId(3));
    let text = |error: AllReduceError| error.to_string();
    let turn = |running| AllReduceError::OutOfTurn { round, step, node, running, at: 0 };
    assert_eq!(text(turn(true)), "it sent step 1 of all-reduce 2, while node 3 is in 0");
    assert_eq!(text(turn(false)), "it sent step 1 of all-reduce 2, while node 3 has not started 0");
    let stray = AllReduceError::NotItsStep { step, node };
    assert_eq!(text(stray), "it sent step 1 of an all-reduce to node 3, which is not its to send");
    let part = PartError::NoSuchKey { index: 9, keys: 3 };
    let malformed = AllReduceError::Malformed { round, step, part };
    assert_eq!(text(malformed), "it sent index 9 of 3 static keys in step 1 of all-reduce 2");
}

/// A node that waits for the message of a step may receive it and, before it goes on, the message of the same
/// step of the next round: the sender has completed the round with what this node sent. In a cluster of two,
/// that is the only early message.
#[test]
fn the_message_of_the_next_round_may_follow_the_one_that_a_node_waits_for() {
    let own = |value| Deltas { indices: vec![0], values: vec![value] };
    let mut cluster = Cluster::<f64>::new(2, &[1], 0);
    cluster.start(0, own(10.0));
    cluster.start(1, own(1.0));
    cluster.deliver_all((0, 1));
    cluster.advance(1);
    cluster.start(1, own(2.0));
    // The messages of both rounds arrive before node 0 goes on.
    cluster.deliver_all((1, 0));
    cluster.advance(0);
    assert_eq!(cluster.results, [[own(11.0)], [own(11.0)]]);
    assert!(cluster.nodes[0].is_called(), "node 1 has started the next round");
    cluster.start(0, own(20.0));
    cluster.advance(0);
    cluster.deliver_all((0, 1));
    cluster.advance(1);
    assert_eq!(cluster.results, [[own(11.0), own(22.0)], [own(11.0), own(22.0)]]);
}
