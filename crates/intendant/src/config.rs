//! What a node is made from.

use intendant_core::{Element, Initialiser, Layout, limits};
use intendant_engine::Storage;
use intendant_sampling::Sampler;
use intendant_techniques::{Order, Policy, Technique};

/// What a node is made from. All nodes of a cluster are given the same, except for the number of workers.
#[derive(Clone)]
pub struct NodeConfig<E> {
    /// The keys and where they are at home. Its number of nodes is set by [`crate::Node`] to that of the cluster.
    pub layout: Layout,
    /// Initial values.
    pub init: Initialiser<E>,
    /// Distributions to sample from.
    pub sampler: Sampler,
    /// Who decides where parameters are.
    pub technique: Technique,
    /// Workers (training threads) of this node.
    pub workers: usize,
    /// Dense or sparse.
    pub storage: Storage,
    /// Order of a worker's operations on a key; `None` for the technique's own.
    pub order: Option<Order>,
    /// Whether nodes remember where keys were that they accessed, which saves a message if they are still there and costs one if
    /// not; `None` for the technique's own. With caches, the default order is [`Order::Chain`].
    pub caches: Option<bool>,
    /// Bytes that a worker may have in flight before its next operation waits: values, and
    /// [`limits::OUTSTANDING_KEY_BYTES`] for each key.
    pub outstanding_bytes: usize,
    /// Stands for whatever else must be equal on all nodes, e.g. seed and kind of the initial values: nodes with different
    /// tags refuse each other.
    pub tag: u64,
}

impl<E> NodeConfig<E> {
    /// What the technique decides, with what the user asks for.
    pub(crate) fn policy(&self) -> Policy {
        self.technique.policy().with(self.order, self.caches)
    }
}

impl<E: Element> NodeConfig<E> {
    /// Classic, one worker, dense, nothing to sample from.
    pub fn new(layout: Layout, init: Initialiser<E>) -> Self {
        Self {
            layout,
            init,
            sampler: Sampler::default(),
            technique: Technique::default(),
            workers: 1,
            storage: Storage::default(),
            order: None,
            caches: None,
            outstanding_bytes: limits::OUTSTANDING_BYTES_DEFAULT,
            tag: 0,
        }
    }
}
