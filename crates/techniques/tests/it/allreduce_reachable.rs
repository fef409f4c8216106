//! Visits every state that small clusters can reach. In each of its states a node must accept exactly the
//! messages that can arrive there.

use intendant_core::NodeId;
use intendant_techniques::allreduce::{AllReduce, Part, Step};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Sender, round, step.
type Header = (usize, u32, u8);

#[derive(Clone)]
struct Cluster {
    nodes: Vec<AllReduce<f32>>,
    /// Messages under way, by sender and receiver.
    queues: BTreeMap<(usize, usize), VecDeque<Header>>,
}

impl Cluster {
    fn new(nodes: usize) -> Self {
        let lens: Arc<[u32]> = Arc::from([1]);
        let nodes =
            (0..nodes).map(|node| AllReduce::new(NodeId(node as u16), nodes, Arc::clone(&lens))).collect();
        Self { nodes, queues: BTreeMap::new() }
    }

    fn send(&mut self, node: usize, steps: Vec<Step<f32>>) {
        for step in steps {
            self.queues.entry((node, step.to.index())).or_default().push_back((node, step.round, step.step));
        }
    }

    /// All clusters that are one event away from this one: a node starts, a message arrives, a node goes on.
    fn successors(&self, rounds: u32) -> Vec<Self> {
        let mut all = Vec::new();
        for node in 0..self.nodes.len() {
            if !self.nodes[node].is_running() && self.nodes[node].round() < rounds {
                let (mut next, mut steps) = (self.clone(), Vec::new());
                next.nodes[node].start(Arc::default(), &mut steps);
                next.send(node, steps);
                all.push(next);
            }
            let (mut next, mut steps) = (self.clone(), Vec::new());
            if next.nodes[node].is_running() {
                let _ = next.nodes[node].advance(&mut steps);
                next.send(node, steps);
                all.push(next);
            }
        }
        for pair in self.queues.keys() {
            let mut next = self.clone();
            let queue = next.queues.get_mut(pair).expect("it is there");
            let (from, round, step) = queue.pop_front().expect("empty queues are removed");
            if queue.is_empty() {
                next.queues.remove(pair);
            }
            let taken = next.nodes[pair.1].receive(NodeId(from as u16), round, step, true, Part::default());
            assert_eq!(taken, Ok(()), "node {} refused what can arrive: {:?}", pair.1, self.nodes[pair.1]);
            all.push(next);
        }
        all
    }

    fn identity(&self) -> String {
        format!("{:?}{:?}", self.nodes, self.queues)
    }
}

/// Visits all states of `nodes` nodes in `rounds` rounds; returns how many there are.
fn explore(nodes: usize, rounds: u32) -> usize {
    let mut seen = BTreeSet::new();
    let mut states = BTreeMap::new();
    let mut left = vec![Cluster::new(nodes)];
    seen.insert(left[0].identity());
    while let Some(cluster) = left.pop() {
        let heads: Vec<_> = cluster.queues.iter().map(|(pair, queue)| (pair.1, queue[0])).collect();
        for (node, state) in cluster.nodes.iter().enumerate() {
            let known =
                states.entry((node, format!("{state:?}"))).or_insert((state.clone(), BTreeSet::new()));
            known.1.extend(heads.iter().filter(|(to, _)| *to == node).map(|(_, header)| *header));
        }
        let successors = cluster.successors(rounds);
        assert!(
            !successors.is_empty()
                || cluster.nodes.iter().all(|node| node.round() == rounds && node.is_idle()),
            "stuck: {:?}",
            cluster.nodes
        );
        left.extend(successors.into_iter().filter(|next| seen.insert(next.identity())));
    }
    let doublings = nodes.ilog2() as u8;
    for ((node, _), (state, can_arrive)) in &states {
        // Nodes start no round after the last, so messages of that round, which could arrive, were not seen.
        if state.round() + 1 >= rounds {
            continue;
        }
        let rounds = [u32::MAX, 0, 1, 2].map(|ahead| state.round().wrapping_add(ahead));
        let all = (0..nodes).flat_map(|from| {
            rounds.iter().flat_map(move |round| (0..=doublings + 2).map(move |step| (from, *round, step)))
        });
        let accepted: BTreeSet<Header> = all
            .filter(|(from, round, step)| {
                let part = Part::default();
                state.clone().receive(NodeId(*from as u16), *round, *step, true, part).is_ok()
            })
            .collect();
        assert_eq!(&accepted, can_arrive, "accepted != possible at node {node}: {state:?}");
    }
    seen.len()
}

#[test]
fn what_can_arrive_is_accepted_and_nothing_else() {
    for (nodes, rounds) in [(1, 3), (2, 4), (3, 4), (4, 3), (5, 2), (6, 2)] {
        let states = explore(nodes, rounds);
        eprintln!("{nodes} nodes, {rounds} rounds: {states} states");
        assert!(states > 2 * nodes, "nothing happened");
    }
}
