//! Calls that relocate keys or depend on their location, and relocations that owners decide.

use super::{OutstandingOp, Programs, Waiting};
use crate::checker::{Checked, holders};
use crate::workload::Failure;
use intendant_core::{Element, Key, NodeId};
use intendant_sim::cluster::CallOutcome;

/// Upper bound of outstanding localize calls of a worker that waits for each access.
const MOVES_MAX: usize = 4;

impl<E: Element> Programs<E> {
    /// Lets the owner of the first key relocate the keys to `to`.
    pub(super) fn relocate(&self, cluster: &mut Checked<E>, keys: &[Key], to: NodeId) {
        let owner = cluster.probe().owner(keys[0]).index();
        cluster.relocate(owner * self.scenario.workers, keys, to);
    }

    /// Lets the owner of the first key relocate the keys to a holder of a replica. Half of the time, the
    /// first key goes to `via` first: it may then reach the holder before the owner's earlier messages to
    /// that holder. Without a holder, the keys move to `via`.
    pub(super) fn promote(&mut self, cluster: &mut Checked<E>, keys: &[Key], via: NodeId) {
        let holders = holders(cluster, keys[0]);
        if holders.is_empty() {
            return self.relocate(cluster, keys, via);
        }
        let holder = self.dice.pick(&holders);
        if self.dice.once_in(2) {
            self.two_step = Some((keys[0], via, holder));
            self.relocate(cluster, &keys[..1], via);
        } else {
            self.relocate(cluster, keys, holder);
        }
    }

    /// Continues a two-step relocation whose key has reached its intermediate node.
    pub(super) fn continue_two_step(&mut self, cluster: &mut Checked<E>) {
        if let Some((key, _, holder)) =
            self.two_step.take_if(|(key, via, _)| cluster.probe().is_at(*key, *via))
        {
            self.relocate(cluster, &[key], holder);
        }
    }

    pub(super) fn pull_if_local(
        &mut self,
        cluster: &mut Checked<E>,
        worker: usize,
        keys: &[Key],
    ) -> Result<(), Failure> {
        let now_ns = Some(cluster.now_ns());
        let (values, here) = cluster.pull_if_local(worker, keys)?;
        let mut at = 0;
        for (key, here) in keys.iter().zip(here) {
            let end = at + cluster.layout().visible(*key);
            if here {
                let record = self.record_pull(worker, *key, now_ns);
                self.record_results(cluster, worker, &[*key], &[record], &values[at..end])?;
            }
            at = end;
        }
        cluster.wake(worker, 0);
        Ok(())
    }

    pub(super) fn localize(
        &mut self,
        cluster: &mut Checked<E>,
        worker: usize,
        keys: Vec<Key>,
        wait: bool,
    ) -> Result<(), Failure> {
        let CallOutcome { op, .. } = cluster.localize(worker, &keys)?;
        let Some(op) = op else {
            cluster.wake(worker, 0);
            return Ok(());
        };
        let outstanding = &mut self.programs[worker].outstanding;
        outstanding.push(OutstandingOp { op, keys, records: Vec::new() });
        let crowded = outstanding.len() >= self.scenario.in_flight_max.max(MOVES_MAX);
        let waiting = if wait || crowded { Waiting::For(op) } else { Waiting::No };
        self.wait_or_wake(cluster, worker, waiting);
        Ok(())
    }
}
