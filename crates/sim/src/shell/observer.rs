//! What a simulated run tells while it goes on.

use super::cut::Cut;
use super::meter::EpochOutcome;
use intendant_core::NodeId;
use intendant_task::Progress;
use intendant_trace::{Event, Header};

/// What happens to the cuts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// All workers have voted at a meeting.
    Voted {
        /// The pending cut was settled: node 0 writes its manifest.
        is_settled: bool,
        /// A cut begins.
        begins: bool,
    },
    /// For a cut, the cluster has come to rest.
    Resting,
    /// All nodes have copied their values.
    Copied,
    /// A node's part is durable.
    Written(NodeId),
    /// The manifest of a cut is durable.
    Committed(u64),
}

/// Receives the progress of a run.
pub trait Observer {
    /// Called at each moment of a cut. A node that is returned dies there.
    fn moment(&mut self, _moment: Moment) -> Option<NodeId> {
        None
    }

    /// Called when all values of a cut have been copied.
    fn cut(&mut self, _cut: &Cut) {}

    /// Called after a worker has computed a batch.
    fn batch(&mut self, _worker: usize, _progress: &Progress) {}

    /// Called after each epoch, counted from 1, with its measurements and its validation result if there was
    /// one.
    fn epoch(&mut self, _number: usize, _epoch: &EpochOutcome) {}

    /// Called before the run, if it is traced (`TaskConfig::trace`), with the headers of the nodes'
    /// traces.
    fn traces(&mut self, _headers: Vec<Header>) {}

    /// Called with events of a traced run, in the order of virtual time, and with the nodes that noticed
    /// them.
    fn records(&mut self, _events: Vec<(NodeId, Event)>) {}

    /// Whether the run should end early. Polled every few milliseconds of real time.
    fn stop(&mut self) -> bool {
        false
    }
}

/// Ignores all progress and never stops the run.
impl Observer for () {}
