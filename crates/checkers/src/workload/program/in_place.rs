//! Rows that workers read and change in place.

use super::Programs;
use crate::checker::Checked;
use crate::workload::Failure;
use intendant_core::{Element, Key};
use intendant_wire::AccessKind;

/// Of this many pushes, one updates its keys in place where it can. They are not drawn, so that what else a
/// seed draws does not depend on them.
const EVERY: u64 = 3;

impl<E: Element> Programs<E> {
    /// Whether the next push of a worker is to update its keys in place.
    pub(super) fn is_in_place(&self, worker: usize) -> bool {
        self.scenario.rules.is_none() && self.programs[worker].calls_left.is_multiple_of(EVERY)
    }

    /// Reads rows and adds to their worker's lane, row by row. Each row is accessed once: in the history,
    /// this is a pull and a push with nothing between them. Keys whose rows are not lent are pushed.
    pub(super) fn update_in_place(
        &mut self,
        cluster: &mut Checked<E>,
        worker: usize,
        keys: Vec<Key>,
    ) -> Result<(), Failure> {
        let now_ns = Some(cluster.now_ns());
        let absent = cluster.find_absent(worker, &keys)?;
        let mut rest = Vec::new();
        for (position, key) in (0..).zip(&keys) {
            if absent.contains(&position) {
                rest.push(*key);
                continue;
            }
            let pull = self.record_pull(worker, *key, now_ns);
            let mut update = Vec::new();
            let push = self.record_push(worker, *key, cluster.layout().len(*key), now_ns, &mut update);
            let mut before = Vec::new();
            let lent = cluster.update(worker, *key, |row| {
                before.extend_from_slice(row);
                row.iter_mut().zip(&update).for_each(|(value, update)| *value += *update);
            });
            assert!(lent, "no time has passed since {key:?} was found here");
            self.record_results(cluster, worker, &[*key], &[pull], &before)?;
            self.record_results(cluster, worker, &[*key], &[push], &[])?;
        }
        if rest.is_empty() {
            cluster.wake(worker, 0);
            return Ok(());
        }
        self.access(cluster, worker, AccessKind::Push, rest)
    }
}
