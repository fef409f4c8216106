//! A handle for threads that watch a node.

use crate::inbox::Command;
use crate::parts::NodeParts;
use crate::traffic::Traffic;
use intendant_control::Failure;
use intendant_core::Element;
use intendant_engine::{ManagementStats, NetworkStats};
use intendant_sampling::SamplingStats;
use std::sync::Arc;

/// Reads the statistics of a node on any thread, while the node lives and afterwards.
#[derive(Clone)]
pub struct Observer<E> {
    inner: Arc<NodeParts<E>>,
    traffic: Arc<Traffic>,
}

impl<E: Element> Observer<E> {
    pub(crate) fn new(inner: Arc<NodeParts<E>>, traffic: Arc<Traffic>) -> Self {
        Self { inner, traffic }
    }

    /// Messages that the node has sent so far.
    pub fn network(&self) -> NetworkStats {
        self.traffic.stats()
    }

    /// Statistics of parameter management on the node so far. The call asks the threads of the channels, and
    /// waits for their answers.
    ///
    /// # Errors
    /// The reason for which the cluster has ended, if it has.
    #[inline(never)]
    pub fn management(&self) -> Result<ManagementStats, Failure> {
        let mut sum = ManagementStats::default();
        for stats in self.inner.ask_channels(Command::Management)? {
            sum.merge(&stats);
        }
        Ok(sum)
    }

    /// Statistics of sampling on the node so far.
    pub fn sampling(&self) -> SamplingStats {
        self.inner.sampling.stats()
    }

    /// Number of values that the node holds. The call latches one shard after the other.
    pub fn held(&self) -> usize {
        self.inner.shared.inspect().held()
    }

    /// Number of commands of workers and loaders that wait for the threads of the channels.
    pub fn inbox_commands(&self) -> usize {
        self.inner.inboxes.iter().map(crate::inbox::InboxSender::len).sum()
    }

    /// Why the cluster ended, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.inner.health.check().err()
    }
}
