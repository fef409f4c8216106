//! Why keys are where they are.

use super::Cluster;
use intendant_core::{Element, Key};
use intendant_engine::Explanation;

impl<E: Element> Cluster<E> {
    /// Why `key` is where it is, as `node` sees it.
    #[inline(never)]
    pub fn explain(&self, node: usize, key: Key) -> Explanation {
        self.stations[self.station(node, self.layout.channel(key).index())].engine.explain(key)
    }
}
