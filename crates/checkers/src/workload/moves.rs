//! Calls of workers that move keys or depend on where they are, and decisions of their nodes.

use super::Failure;
use super::program::{Flight, Programs, Waiting};
use intendant_core::{Element, Key, NodeId};
use intendant_sim::cluster::{Called, Cluster};

/// Moves of keys that a worker may have outstanding if it waits for each access.
const MOVES_MAX: usize = 4;

impl<E: Element> Programs<E> {
    /// The owner of the first key shall move the keys to `to`.
    pub(super) fn order(&self, cluster: &mut Cluster<E>, keys: &[Key], to: NodeId) {
        let owner = cluster.owner(keys[0]).index();
        cluster.order(owner * self.scenario.workers, keys, to);
    }

    /// The owner of the first key shall move the keys to a holder of it, maybe over `via`: then it may come
    /// there before what the owner has told the holder. If there is no holder, they go to `via`.
    pub(super) fn promote(&mut self, cluster: &mut Cluster<E>, keys: &[Key], via: NodeId) {
        let holders = cluster.holders(keys[0]);
        if holders.is_empty() {
            return self.order(cluster, keys, via);
        }
        let holder = self.dice.pick(&holders);
        if self.dice.once_in(2) {
            self.chased = Some((keys[0], via, holder));
            self.order(cluster, &keys[..1], via);
        } else {
            self.order(cluster, keys, holder);
        }
    }

    /// A key that is to go over a node may have come there.
    pub(super) fn chase(&mut self, cluster: &mut Cluster<E>) {
        if let Some((key, _, holder)) = self.chased.take_if(|(key, via, _)| cluster.is_at(*key, *via)) {
            self.order(cluster, &[key], holder);
        }
    }

    pub(super) fn pull_if_local(
        &mut self,
        cluster: &mut Cluster<E>,
        worker: usize,
        keys: &[Key],
    ) -> Result<(), Failure> {
        let now_ns = Some(cluster.now_ns());
        let (values, here) = cluster.pull_if_local(worker, keys)?;
        let mut at = 0;
        for (key, here) in keys.iter().zip(here) {
            let end = at + cluster.layout().len(*key);
            if here {
                let note = self.note_pull(worker, *key, now_ns);
                self.learn(cluster, worker, &[*key], &[note], &values[at..end])?;
            }
            at = end;
        }
        cluster.wake(worker, 0);
        Ok(())
    }

    pub(super) fn localize(
        &mut self,
        cluster: &mut Cluster<E>,
        worker: usize,
        keys: Vec<Key>,
        wait: bool,
    ) -> Result<(), Failure> {
        let Called { op, .. } = cluster.localize(worker, &keys)?;
        let Some(op) = op else {
            cluster.wake(worker, 0);
            return Ok(());
        };
        let flights = &mut self.programs[worker].flights;
        flights.push(Flight { op, keys, notes: Vec::new() });
        let crowded = flights.len() >= self.scenario.in_flight_max.max(MOVES_MAX);
        let waiting = if wait || crowded { Waiting::For(op) } else { Waiting::No };
        self.settle(cluster, worker, waiting);
        Ok(())
    }
}
