//! Items that are exchanged without Lapser: the baselines of [Lapser Tab. 5.2].
//!
//! - One-sided: a node writes each item to its consumers as soon as it has it. After each step whose items
//!   the next step needs, it waits for the completion of its writes, and all nodes meet.
//! - All-gather: at the end of a step, a node writes all of its items to all other nodes; all nodes meet.
//! - Broadcast: at the end of a step, the items of one node after the other go down a binomial tree of all
//!   nodes.
//!
//! Values carry no clocks and no checksums. Nodes meet by dissemination: in round r, a node notifies the node
//! 2^r places further on, and waits for the node 2^r places before. The costs of MPI's two-sided messages
//! (copies and matching) are not modelled.

use super::costs::Costs;
use super::thread::{Got, Own, Thread};
use crate::exchange::Exchange;
use bpmf::{Item, Model, Need, Side, Step};
use intendant_lapser::Directory;
use intendant_segment::slot;
use intendant_sim::onesided::{Input, OneSided};
use intendant_train::TrainError;
use std::collections::VecDeque;
use std::sync::Arc;

/// Words at the start of a segment: a cache line that is the source of notifications, and a cache line that
/// is their destination.
pub(super) const HEAD_WORDS: usize = 16;

const LINE_WORDS: usize = 8;

/// Number of bits of a hint that identify the node that sends it.
const RANK_BITS: u32 = 8;

/// A part of an exchange.
#[derive(Clone, Copy, Debug)]
enum Act {
    Write {
        to: usize,
        local: usize,
        remote: usize,
        words: usize,
        bytes: u64,
        /// Whether the other node waits for a notification of it.
        notify: bool,
    },
    /// Waits for the next notification of a node.
    Await(usize),
    /// Waits for the completion of all writes.
    Flush,
}

/// Items with consecutive slots, at their producer and at all other nodes.
#[derive(Clone, Debug)]
struct Run {
    first: u64,
    words: usize,
    bytes: u64,
}

/// The exchange of one node.
pub(super) struct ByHand {
    exchange: Exchange,
    rank: usize,
    nodes: usize,
    directory: Arc<Directory>,
    model: Arc<Model>,
    /// The items of each node.
    produced: Arc<Vec<Vec<Item>>>,
    costs: Costs,
    needs: Vec<Need>,
    acts: VecDeque<Act>,
    /// Whether the current act waits.
    waits: bool,
    /// By node: the numbers of notifications that were sent, that have arrived, and that were awaited.
    given: Vec<u32>,
    come: Vec<u32>,
    awaited: Vec<u32>,
    in_flight: usize,
    id: u64,
    words: Vec<u64>,
    values: Vec<f64>,
}

impl ByHand {
    pub(super) fn new(
        directory: &Arc<Directory>,
        rank: usize,
        exchange: Exchange,
        model: &Arc<Model>,
        produced: &Arc<Vec<Vec<Item>>>,
        costs: Costs,
    ) -> Self {
        let nodes = directory.nodes();
        Self {
            exchange,
            rank,
            nodes,
            directory: Arc::clone(directory),
            model: Arc::clone(model),
            produced: Arc::clone(produced),
            costs,
            needs: Vec::new(),
            acts: VecDeque::new(),
            waits: false,
            given: vec![0; nodes],
            come: vec![0; nodes],
            awaited: vec![0; nodes],
            in_flight: 0,
            id: 0,
            words: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Stores an item. If items are written one by one, writes it to its consumers.
    pub(super) fn set(&mut self, thread: &mut Thread, item: Item, network: &mut OneSided<Own>) {
        let key = self.model.key(item);
        self.values.clear();
        thread.block.value(item, &mut self.values);
        self.words.clear();
        self.words.extend(self.values.iter().map(|value| value.to_bits()));
        let at = self.place(self.rank, key) + slot::HEADER;
        let mut before = vec![0; self.words.len()];
        let segment = network.segment(self.rank).clone();
        segment.read(at, &mut before);
        segment.write(at, &self.words);
        network.storing(self.rank, at, &before, thread.costs.copied_ns(item));
        if self.exchange != Exchange::OneSided {
            return;
        }
        let consumers: Vec<usize> = self.directory.consumers(key).map(|(node, _)| node).collect();
        for to in consumers {
            let remote = self.place(to, key) + slot::HEADER;
            let (words, bytes) = (self.words.len(), self.costs.value_bytes(item));
            self.write(thread, network, to, (at, remote), words, bytes, false);
        }
    }

    /// Ends a step whose items were set; `None` stands for the items that have a value from the start.
    pub(super) fn end(&mut self, step: Option<Step>) {
        match self.exchange {
            // U is needed only after the nodes have met for its statistics.
            Exchange::OneSided if step == Some(Step::Rows(Side::Rows)) => {}
            Exchange::OneSided => self.meet(),
            Exchange::AllGather => {
                for run in self.runs(self.rank, step) {
                    for to in (1..self.nodes).map(|far| (self.rank + far) % self.nodes) {
                        self.acts.push_back(self.copy(&run, to, false));
                    }
                }
                self.meet();
            }
            Exchange::Broadcast => {
                for root in 0..self.nodes {
                    for run in self.runs(root, step) {
                        self.broadcast(root, &run);
                    }
                }
                self.acts.push_back(Act::Flush);
            }
            Exchange::LapserPush | Exchange::LapserPull | Exchange::LapserPushBySlack => {}
        }
    }

    /// Waits for the completion of all writes, then for all nodes.
    fn meet(&mut self) {
        self.acts.push_back(Act::Flush);
        let mut far = 1;
        while far < self.nodes {
            let (to, from) = ((self.rank + far) % self.nodes, (self.rank + self.nodes - far) % self.nodes);
            let (local, remote) = (0, LINE_WORDS);
            let bytes = 8 * LINE_WORDS as u64;
            self.acts.push_back(Act::Write { to, local, remote, words: LINE_WORDS, bytes, notify: true });
            self.acts.push_back(Act::Await(from));
            far *= 2;
        }
    }

    /// Passes items of `root` on in a binomial tree. A node at distance d from the root gets them from the
    /// node whose distance is d without its highest bit. It passes them on to the nodes at distances d + 2^j
    /// with 2^j > d.
    fn broadcast(&mut self, root: usize, run: &Run) {
        let distance = (self.rank + self.nodes - root) % self.nodes;
        let node = |distance: usize| (root + distance) % self.nodes;
        let mut far = 1;
        if distance > 0 {
            let highest = 1 << distance.ilog2();
            self.acts.push_back(Act::Await(node(distance - highest)));
            far = 2 * highest;
        }
        while distance + far < self.nodes {
            let to = node(distance + far);
            self.acts.push_back(self.copy(run, to, true));
            far *= 2;
        }
    }

    fn copy(&self, run: &Run, to: usize, notify: bool) -> Act {
        let (local, remote) = (self.place(self.rank, run.first), self.place(to, run.first));
        Act::Write { to, local, remote, words: run.words, bytes: run.bytes, notify }
    }

    /// The items of a step of a node, in runs with consecutive keys, and therefore with consecutive slots.
    fn runs(&self, node: usize, step: Option<Step>) -> Vec<Run> {
        let is_of_step = |item: &Item| match (step, item) {
            (None, Item::Hyperparameters(_)) => false,
            (None, Item::Row(..) | Item::Statistics(..)) => true,
            (Some(Step::Rows(side)), Item::Row(of, _)) => side == *of,
            (Some(Step::Predict), Item::Statistics(..)) => true,
            (Some(Step::Hyperparameters), Item::Hyperparameters(_)) => true,
            (Some(_), _) => false,
        };
        let items = self.produced[node].iter().filter(|item| is_of_step(item));
        let mut items: Vec<(u64, Item)> = items.map(|item| (self.model.key(*item), *item)).collect();
        items.sort_unstable_by_key(|(key, _)| *key);
        let mut runs: Vec<Run> = Vec::new();
        let mut next = None;
        for (key, item) in items {
            let (words, bytes) = (slot::words(self.model.words(item)), self.costs.value_bytes(item));
            match runs.last_mut() {
                Some(run) if next == Some(key) => {
                    run.words += words;
                    run.bytes += bytes;
                }
                _ => runs.push(Run { first: key, words, bytes }),
            }
            next = Some(key + 1);
        }
        runs
    }

    /// The place of an item in the segment of a node that produces or consumes it.
    fn place(&self, node: usize, key: u64) -> usize {
        let place = if self.directory.producer(key) == Some(node) {
            self.directory.produced_at(key)
        } else {
            self.directory.copy_at(key, node).and_then(|copy| copy.pushed)
        };
        place.unwrap_or_else(|| panic!("node {node} neither produces nor consumes key {key}"))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the operation of a window, its bytes, and where it begins"
    )]
    fn write(
        &mut self,
        thread: &mut Thread,
        network: &mut OneSided<Own>,
        to: usize,
        (local, remote): (usize, usize),
        words: usize,
        bytes: u64,
        notify: bool,
    ) {
        let hint = notify.then(|| {
            self.given[to] = self.given[to].wrapping_add(1);
            // Different from earlier hints, so that none are merged.
            self.given[to] << RANK_BITS | self.rank as u32
        });
        self.in_flight += 1;
        self.id += 1;
        thread.writes(network, bytes);
        network.write(self.rank, to, local, remote, words, hint, self.id, 0);
    }

    /// Continues the exchange. Returns whether it is complete.
    pub(super) fn meets(&mut self, thread: &mut Thread, network: &mut OneSided<Own>) -> bool {
        while let Some(act) = self.acts.front().copied() {
            self.waits = match act {
                Act::Write { to, local, remote, words, bytes, notify } => {
                    self.write(thread, network, to, (local, remote), words, bytes, notify);
                    false
                }
                Act::Await(from) => self.come[from] == self.awaited[from],
                Act::Flush => self.in_flight > 0,
            };
            if self.waits {
                return false;
            }
            if let Act::Await(from) = act {
                self.awaited[from] = self.awaited[from].wrapping_add(1);
            }
            self.acts.pop_front();
        }
        true
    }

    /// Handles an input. Returns whether the thread may continue.
    pub(super) fn learn(&mut self, input: &Input<Own>) -> bool {
        match input {
            Input::Done(_) => self.in_flight -= 1,
            Input::Hint { from, .. } => self.come[*from] = self.come[*from].wrapping_add(1),
            Input::Own(_) | Input::Failed { .. } | Input::Closed(_) => {}
        }
        std::mem::take(&mut self.waits)
    }

    /// The items that the next step needs.
    pub(super) fn begin(&mut self, needs: Vec<Need>) {
        self.needs = needs;
    }

    /// Hands all of them to the block: they have arrived.
    pub(super) fn gets(
        &mut self,
        thread: &mut Thread,
        network: &mut OneSided<Own>,
    ) -> Result<Got, TrainError> {
        let segment = network.segment(self.rank).clone();
        for need in std::mem::take(&mut self.needs) {
            let key = self.model.key(need.item);
            self.words.clear();
            self.words.resize(self.model.words(need.item), 0);
            segment.read(self.place(self.rank, key) + slot::HEADER, &mut self.words);
            self.values.clear();
            self.values.extend(self.words.iter().map(|word| f64::from_bits(*word)));
            let put = thread.block.put(need.item, &self.values);
            put.map_err(|error| TrainError::Stopped(error.to_string()))?;
            network.computing(self.rank, thread.costs.copied_ns(need.item));
        }
        Ok(Got::All)
    }
}
