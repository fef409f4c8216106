//! A lower bound of what a parameter manager must send: the bytes of values that one with perfect knowledge
//! of the future sends at least, for the accesses of a run.
//!
//! The trace is what workers do to keys: which node reads a key, which node adds to it, and when. A *manager*
//! decides where values are. It may move, copy and combine them as it likes, and it knows the whole trace in
//! advance. A *transfer* brings everything that one node knows of a key to another node, and counts as the
//! bytes of one value. Managers must do two things ([`Staleness`]):
//!
//! - A read sees all writes of earlier epochs; with [`Staleness::Within`], also all writes of its own epoch
//!   that are older than that.
//! - At the end of an epoch, one node has all writes to the key (evaluation and export read it there).
//!
//! Every technique of this project does so within an epoch of any length, because an epoch ends with a
//! quiescent cluster. Initial values are free: each node can compute them. So are accesses at the node of the
//! value, keys, requests and acknowledgements. Updates are added, so that one transfer can carry the updates
//! of many nodes.
//!
//! # What is counted
//!
//! Keys are independent of each other. A node *lacks* a write of another node until a transfer to it was
//! needed after that write.
//!
//! - **Arrivals.** When a node reads a key and lacks a write that it must see, there is a transfer to this
//!   node after that write and before the end of the read. From then on the node lacks nothing. The intervals
//!   of one node do not overlap, so their transfers differ. Those of two nodes differ by destination.
//! - **Departures.** Take an epoch with writes, and the first node that knows all of them. Each other writer
//!   has made a transfer after its last write. These transfers differ by sender. One writer is exempt.
//! - **Across epochs** no transfer counts twice. Departures come before the time at which that first node
//!   knows all writes, and arrivals of later epochs after it: only then can a transfer bring everything. The
//!   first node itself needs no arrival, so one of these arrivals is exempt. If the exempt one is no writer,
//!   then all writers have departures. The bound exempts an arrival of a writer, or any arrival if one more
//!   departure would not count.
//! - **Within an epoch** a transfer can be an arrival and a departure, if the sender's last write is before
//!   the end of the receiver's read. At most so many transfers are both as a maximum matching has pairs. The
//!   two are matched in the order of time, which is a maximum because all departures have the same end.
//!
//! A key that one node uses at a time costs one transfer per change of hands. A key that `n` nodes use all
//! the time costs `2 (n - 1)` per epoch: its updates are combined, and the result is copied.
//!
//! # What the bound is not
//!
//! No schedule may reach it. Within an epoch, [`Staleness::Within`] counts a transfer per node and interval,
//! and not that the updates of all nodes must be collected first: up to half is missing. The times are those
//! of the simulated run, and with another manager workers would be faster or slower. The tests of `key.rs`
//! compare the bound with the optimum over all schedules, for all short traces of two and three nodes: it is
//! never above.

mod key;

use intendant_core::{Key, Layout, Tick};
use key::KeyTrace;
use std::sync::Arc;

/// What reads must see of other nodes' writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staleness {
    /// All writes of earlier epochs.
    Epoch,
    /// Also those that are older than this.
    Within(Tick),
}

/// The bound of a run, which grows with its accesses.
#[derive(Clone, Debug)]
struct Bound {
    layout: Arc<Layout>,
    /// Bytes of an element.
    element: usize,
    staleness_ns: Option<u64>,
    epoch: u32,
    /// By key.
    traces: Vec<KeyTrace>,
    /// Of this epoch.
    bytes: u64,
}

impl Bound {
    fn new(layout: Arc<Layout>, element: usize, staleness: Staleness) -> Self {
        let staleness_ns = match staleness {
            Staleness::Epoch => None,
            Staleness::Within(Tick(us)) => Some(us.saturating_mul(1_000)),
        };
        let traces = vec![KeyTrace::default(); layout.keys() as usize];
        Self { layout, element, staleness_ns, epoch: 0, traces, bytes: 0 }
    }

    /// A worker of `node` has read `keys`.
    fn read(&mut self, node: usize, keys: &[Key], now_ns: u64) {
        for key in keys {
            let trace = &mut self.traces[key.index()];
            let transfers = trace.read(node as u16, self.epoch, now_ns, self.staleness_ns);
            self.count(*key, transfers);
        }
    }

    /// A worker of `node` has added to `keys`.
    fn write(&mut self, node: usize, keys: &[Key], now_ns: u64) {
        keys.iter().for_each(|key| self.traces[key.index()].write(node as u16, self.epoch, now_ns));
    }

    /// The epoch ends. Returns its bytes.
    fn end_epoch(&mut self) -> u64 {
        for key in (0..self.layout.keys()).map(Key) {
            let transfers = self.traces[key.index()].end_epoch();
            self.count(key, transfers);
        }
        self.epoch += 1;
        std::mem::take(&mut self.bytes)
    }

    fn count(&mut self, key: Key, transfers: u32) {
        if transfers > 0 {
            // With a rule, a value or an operand is sent.
            let elements = self.layout.visible(key).min(self.layout.operand(key));
            self.bytes += u64::from(transfers) * (elements * self.element) as u64;
        }
    }
}

/// The bounds of a run, one per staleness that was asked for. They see all accesses of workers.
#[derive(Debug)]
pub(crate) struct Bounds {
    each: Vec<Bound>,
    /// Per node.
    workers: usize,
}

impl Bounds {
    /// Bounds with the given stalenesses, in a cluster with so many workers per node.
    pub(crate) fn new(layout: &Arc<Layout>, element: usize, staleness: &[Staleness], workers: usize) -> Self {
        let bound = |staleness: &Staleness| Bound::new(Arc::clone(layout), element, *staleness);
        Self { each: staleness.iter().map(bound).collect(), workers }
    }

    /// A worker, of all nodes, has read `keys`.
    pub(crate) fn read(&mut self, worker: usize, keys: &[Key], now_ns: u64) {
        self.each.iter_mut().for_each(|bound| bound.read(worker / self.workers, keys, now_ns));
    }

    /// A worker, of all nodes, has added to `keys`.
    pub(crate) fn write(&mut self, worker: usize, keys: &[Key], now_ns: u64) {
        self.each.iter_mut().for_each(|bound| bound.write(worker / self.workers, keys, now_ns));
    }

    /// The epoch ends. Returns the bytes of each bound.
    pub(crate) fn end_epoch(&mut self) -> Vec<u64> {
        self.each.iter_mut().map(Bound::end_epoch).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(nodes: usize, staleness: Staleness) -> Bound {
        let layout = Layout::builder().range("short", 1, 1).range("long", 1, 4).nodes(nodes);
        Bound::new(Arc::new(layout.build().expect("a valid layout")), 4, staleness)
    }

    fn update(bound: &mut Bound, node: usize, key: u64, now_ns: u64) {
        bound.read(node, &[Key(key)], now_ns);
        bound.write(node, &[Key(key)], now_ns);
    }

    #[test]
    fn a_key_of_one_node_at_a_time_moves_and_weighs_its_length() {
        let mut bound = bound(3, Staleness::Epoch);
        update(&mut bound, 0, 1, 1);
        update(&mut bound, 0, 0, 1);
        assert_eq!(bound.end_epoch(), 0, "it begins where it is used first");
        update(&mut bound, 1, 1, 3);
        assert_eq!(bound.end_epoch(), 16);
        update(&mut bound, 1, 1, 4);
        assert_eq!(bound.end_epoch(), 0, "it is there");
        update(&mut bound, 2, 0, 5);
        assert_eq!(bound.end_epoch(), 4);
    }

    #[test]
    fn a_chain_of_nodes_costs_its_links_and_overlapping_nodes_cost_twice() {
        let mut chain = bound(4, Staleness::Epoch);
        (0..4).for_each(|node| update(&mut chain, node, 0, node as u64));
        chain.end_epoch();
        (0..4).for_each(|node| update(&mut chain, 3 - node, 0, 10 + node as u64));
        assert_eq!(chain.end_epoch(), 3 * 4);

        let mut hot = bound(4, Staleness::Epoch);
        let rounds = |bound: &mut Bound, from: u64| {
            (0..8).for_each(|at| update(bound, at % 4, 0, from + at as u64));
            bound.end_epoch()
        };
        assert_eq!(rounds(&mut hot, 0), 3 * 4, "initial values are free");
        assert_eq!(rounds(&mut hot, 10), 6 * 4);
        assert_eq!(rounds(&mut hot, 20), 6 * 4);
    }

    #[test]
    fn fresh_reads_cost_a_transfer_per_change_of_hands() {
        let cost = |staleness| {
            let mut bound = bound(2, Staleness::Within(Tick(staleness)));
            (0..8).for_each(|at| update(&mut bound, at % 2, 0, 1_000 * (1 + at as u64)));
            bound.end_epoch() / 4
        };
        assert_eq!(cost(0), 7);
        assert_eq!([cost(1), cost(100)], [3, 1]);
    }
}
