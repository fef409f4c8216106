//! Data as a sign of life: detects whether bytes of a node have arrived on the data plane lately.
//!
//! Heartbeats and data share the links. On a full link, heartbeats are late, and data keeps arriving.

use intendant_core::NodeId;
use intendant_transport::socket::Arrivals;
use std::sync::{Arc, OnceLock};

/// The counters of the data plane, once it exists.
#[derive(Debug, Default)]
pub(super) struct Signs(OnceLock<Arc<Arrivals>>);

/// The counters as one observer has last seen them.
#[derive(Debug)]
pub(super) struct Arrived {
    signs: Arc<Signs>,
    seen: Vec<u64>,
}

impl Signs {
    /// The data plane exists from now on.
    pub(super) fn set(&self, arrivals: Arc<Arrivals>) {
        // A node has one data plane.
        let _ = self.0.set(arrivals);
    }

    /// An observer of `nodes` nodes.
    pub(super) fn start(self: &Arc<Self>, nodes: usize) -> Arrived {
        Arrived { signs: Arc::clone(self), seen: vec![0; nodes] }
    }
}

impl Arrived {
    /// Calls `heard` with each node from which something has arrived since the last call.
    pub(super) fn each(&mut self, mut heard: impl FnMut(NodeId)) {
        let Some(arrivals) = self.signs.0.get() else { return };
        for (node, seen) in (0..).map(NodeId).zip(&mut self.seen) {
            let count = arrivals.count(node);
            if std::mem::replace(seen, count) != count {
                heard(node);
            }
        }
    }
}
