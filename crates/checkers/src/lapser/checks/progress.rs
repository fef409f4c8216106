//! All workers come to the end, or name a node that is gone; also if hints are lost.

use super::Answers;
use intendant_sim::Finding;

/// A node has not ended although nothing will happen any more.
pub(crate) fn stuck(node: usize, answers: &Answers) -> Finding {
    ("progress", format!("n{node} does not end; it waits for {:?}", answers.waiting(node)))
}

/// A run does not end.
pub(crate) fn endless(events: u64) -> Finding {
    ("progress", format!("the run has not ended after {events} events"))
}
