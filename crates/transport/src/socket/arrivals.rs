//! Counts what arrives from each peer, as a sign of life.
//!
//! Heartbeats share a link with data. On a link that is narrow and full, they arrive seconds late, although
//! their sender is well. Any data that arrives from the sender in the meantime shows that it is well.

use intendant_core::NodeId;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a read brought bytes from each peer, on all channels of a node together.
#[derive(Debug)]
pub struct Arrivals(Box<[AtomicU64]>);

impl Arrivals {
    pub(crate) fn new(nodes: usize) -> Self {
        Self((0..nodes).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn note(&self, from: usize) {
        // Relaxed: the count orders nothing else.
        self.0[from].fetch_add(1, Ordering::Relaxed);
    }

    /// Reads that brought bytes from a peer so far. A count that grows means that the peer's bytes still
    /// arrive.
    ///
    /// # Panics
    /// If `from` is not part of the cluster.
    pub fn count(&self, from: NodeId) -> u64 {
        self.0[from.index()].load(Ordering::Relaxed)
    }
}
