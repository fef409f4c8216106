//! The thread of a node, as the ways of exchange see it: its block, its costs, and its totals.

use super::costs::Costs;
use bpmf::Block;
use intendant_sim::onesided::OneSided;

/// An input of a node besides those of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    /// The thread continues after its last activity.
    Go,
    /// A scheduled look is due.
    Look,
}

/// The progress of a node in getting the items that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Got {
    /// The node has all items.
    All,
    /// The node can continue at once.
    Some,
    /// The node waits for an input.
    Waits,
}

/// The totals of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) compute_ns: u64,
    pub(super) writes: u64,
    pub(super) written_bytes: u64,
    pub(super) reads: u64,
    pub(super) read_bytes: u64,
}

/// The part of a node that ways of exchange use.
pub(super) struct Thread {
    pub(super) rank: usize,
    pub(super) block: Block,
    pub(super) costs: Costs,
    pub(super) done: Done,
}

impl Thread {
    /// Charges the thread and the network for a write that begins and occupies the NICs with `bytes` bytes.
    pub(super) fn writes(&mut self, network: &mut OneSided<Own>, bytes: u64) {
        self.begins(network, bytes);
        self.done.writes += 1;
        self.done.written_bytes += bytes;
    }

    /// The same for a read.
    pub(super) fn reads(&mut self, network: &mut OneSided<Own>, bytes: u64) {
        self.begins(network, bytes);
        self.done.reads += 1;
        self.done.read_bytes += bytes;
    }

    fn begins(&self, network: &mut OneSided<Own>, bytes: u64) {
        network.computing(self.rank, self.costs.begin_ns());
        network.charge_next(bytes);
    }

    /// Schedules the thread to continue when it is idle, after inputs that already wait.
    pub(super) fn go_later(&self, network: &mut OneSided<Own>) {
        let now_ns = network.now_ns();
        network.schedule(self.rank, now_ns, Own::Go);
    }
}
