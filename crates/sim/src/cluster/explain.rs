//! Explanations of key placement: which node holds a key, and why.

use super::{Cluster, Probe};
use intendant_core::{Element, Key};
use intendant_engine::Explanation;

impl<E: Element, P: Probe<E>> Cluster<E, P> {
    /// Why `key` is where it is, from the view of `node`.
    #[inline(never)]
    pub fn explain(&self, node: usize, key: Key) -> Explanation {
        self.stations[self.station(node, self.layout.channel(key).index())].engine.explain(key)
    }
}
