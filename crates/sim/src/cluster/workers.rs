//! The workers of a cluster.

use super::worker::WorkerState;
use intendant_core::WorkerId;
use std::ops::{Index, IndexMut};

/// The workers of all nodes. They are numbered by node, then worker.
pub(super) struct Workers<E> {
    states: Vec<WorkerState<E>>,
    per_node: usize,
}

impl<E> Index<usize> for Workers<E> {
    type Output = WorkerState<E>;

    #[inline]
    fn index(&self, worker: usize) -> &WorkerState<E> {
        &self.states[worker]
    }
}

impl<E> IndexMut<usize> for Workers<E> {
    #[inline]
    fn index_mut(&mut self, worker: usize) -> &mut WorkerState<E> {
        &mut self.states[worker]
    }
}

impl<E> Workers<E> {
    /// The workers of nodes with `per_node` workers each.
    pub(super) fn new(states: Vec<WorkerState<E>>, per_node: usize) -> Self {
        Self { states, per_node }
    }

    /// The node of a worker.
    pub(super) fn node_of(&self, worker: usize) -> usize {
        worker / self.per_node
    }

    /// The id of a worker at its node.
    pub(super) fn id(&self, worker: usize) -> WorkerId {
        WorkerId((worker % self.per_node) as u16)
    }

    /// The number of a worker of `node`; `None` if the node has no such worker.
    pub(super) fn number(&self, node: usize, worker: WorkerId) -> Option<usize> {
        (worker.index() < self.per_node).then(|| node * self.per_node + worker.index())
    }

    /// All workers.
    pub(super) fn all(&self) -> &[WorkerState<E>] {
        &self.states
    }

    /// When the items arrive that the workers of `node` have sent to a channel so far.
    pub(super) fn last_due_ns(&self, node: usize, channel: usize) -> Option<u64> {
        let states = &self.states[node * self.per_node..(node + 1) * self.per_node];
        states.iter().map(|state| state.to_channels[channel].last_due_ns()).max()
    }
}
