//! The clocks that a node gets of an item never decrease.

use intendant_sim::Finding;
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Monotone(BTreeMap<(usize, u64), u64>);

impl Monotone {
    pub(crate) fn got(&mut self, node: usize, key: u64, clock: u64) -> Result<(), Finding> {
        let last = self.0.entry((node, key)).or_insert(0);
        if clock < *last {
            return Err(("monotone", format!("n{node} gets clock {clock} of key {key} after clock {last}")));
        }
        *last = clock;
        Ok(())
    }
}
