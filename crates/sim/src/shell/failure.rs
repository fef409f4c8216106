//! Why a simulated run failed.

use crate::invariants::Violation;
use intendant_core::{LayoutError, NodeId};
use intendant_sampling::SampleError;
use intendant_task::Diverged;

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TaskFailure {
    /// The task's model does not fit the configured cluster.
    #[error("invalid layout: {0}")]
    Layout(#[from] LayoutError),
    /// An invariant was broken.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// Training diverged.
    #[error("worker {worker}: {source}")]
    Diverged {
        /// The worker whose step failed.
        worker: usize,
        /// What was not finite.
        source: Diverged,
    },
    /// The task drew more samples than it had prepared, or named an unknown distribution.
    #[error("worker {worker}: {source}")]
    Sample {
        /// The worker.
        worker: usize,
        /// The sampling error.
        source: SampleError,
    },
    /// A node died ([`crate::Fault::Crash`], `Observer::moment`), and the cluster with it.
    #[error("node {} died at {at_ns} ns", node.0)]
    Crashed {
        /// The node.
        node: NodeId,
        /// When, ns.
        at_ns: u64,
    },
    /// The run ended at a cut, because another number of nodes was asked for (`CutConfig::regroup`).
    #[error("the run goes on with {nodes} nodes")]
    Regrouped {
        /// How many of its nodes stay.
        nodes: u16,
    },
    /// A checkpoint cannot be made, or cannot be read.
    #[error("checkpoint: {0}")]
    Checkpoint(String),
    /// The observer ended the run.
    #[error("the run was stopped")]
    Stopped,
}
