//! The context that a call of a node passes to producer and consumer.

use crate::farewell::Farewells;
use crate::{Effect, Stats};
use intendant_segment::Segment;

/// The context of one call.
pub(crate) struct Turn<'a> {
    /// The node's own segment.
    pub(crate) segment: &'a Segment,
    /// The time; 0 in calls that have none and begin no wait.
    pub(crate) now_ns: u64,
    /// For each node, the reason why it is gone, if it is.
    pub(crate) closed: &'a [Option<String>],
    pub(crate) farewells: &'a mut Farewells,
    pub(crate) stats: &'a mut Stats,
    pub(crate) out: &'a mut Vec<Effect>,
}

impl Turn<'_> {
    /// Whether a node has finished.
    pub(crate) fn has_finished(&mut self, node: usize) -> bool {
        self.farewells.heard(self.segment, node)
    }
}
