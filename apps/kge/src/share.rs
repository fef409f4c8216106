//! Which triples a worker trains in an epoch, and in which order.
//!
//! Without clusters there is one order of all triples, whose batches are dealt out to all workers one by one.
//! With clusters, every node has an order of its own triples, whose batches are dealt out to its workers.
//! Orders are seeded permutations; they depend on seed and epoch, and with clusters also on the node.

use crate::cluster::Clusters;
use intendant_core::random::stream;
use intendant_task::{EpochOrder, Partition};
use std::sync::Arc;

/// The batches of one worker in one epoch.
pub(crate) struct Share {
    /// The triples of each node; `None` if there is one order of all triples.
    clusters: Option<Arc<Clusters>>,
    node: u32,
    order: EpochOrder,
    /// The worker, among the workers that share the batches of the order.
    dealt: Partition,
}

impl Share {
    /// The share of a worker in the `epoch`-th order of `triples` triples, or of the triples of its node.
    pub(crate) fn new(
        (seed, epoch): (u64, u32),
        (triples, batch): (usize, usize),
        clusters: Option<Arc<Clusters>>,
        partition: Partition,
    ) -> Self {
        let node = partition.node();
        let (seed, triples, dealt) = match &clusters {
            None => (seed, triples, partition),
            Some(clusters) => {
                (stream(seed, &[node.into()]), clusters.triples(node).len(), within_node(partition))
            }
        };
        let order = EpochOrder::new(seed, epoch, triples as u64, batch as u64);
        Self { clusters, node, order, dealt }
    }

    /// Number of batches.
    pub(crate) fn batches(&self) -> u64 {
        self.dealt.share(self.order.batches())
    }

    /// Numbers of the triples of a batch.
    pub(crate) fn triples(&self, index: u64) -> impl Iterator<Item = u64> {
        let of_node = self.clusters.as_ref().map(|clusters| clusters.triples(self.node));
        let places = self.order.batch(self.dealt.nth(index));
        places.map(move |place| of_node.map_or(place, |of_node| of_node[place as usize].into()))
    }

    /// A name that distinguishes a batch from all others of the epoch.
    pub(crate) fn name(&self, index: u64) -> Vec<u64> {
        let of_order = self.dealt.nth(index);
        match &self.clusters {
            None => vec![of_order],
            Some(_) => vec![of_order, self.node.into()],
        }
    }

    /// Whether nodes have triples of their own.
    pub(crate) const fn is_clustered(&self) -> bool {
        self.clusters.is_some()
    }
}

/// The worker, numbered among those of its node.
pub(crate) const fn within_node(partition: Partition) -> Partition {
    let workers = partition.workers_per_node();
    Partition { worker: partition.worker % workers, workers, nodes: 1, threads: partition.threads }
}
