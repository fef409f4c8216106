//! Accesses of this node's workers to keys whose replicas it holds: those that a replica serves, those that
//! wait for it in its record, and those that were sent away.

use super::super::held::Urge;
use super::super::staleness::Staleness;
use super::Holder;
use crate::channel::core::Core;
use crate::channel::effects::{Access, Output};
use bytes::Bytes;
use intendant_core::{Element, Key};
use intendant_store::Entry;
use intendant_techniques::{Replicas, Role, SlotState};
use intendant_wire::AccessKind;

impl<E: Element> Holder<E> {
    /// An access of this node's worker to the replica behind `entry`. Returns the entry if the replica serves
    /// the access; else the access waits.
    pub(crate) fn admit<'a>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        staleness: &mut Staleness,
        entry: Entry<'a, SlotState, E>,
        access: Access,
        operand: impl FnOnce() -> Bytes,
    ) -> Option<Entry<'a, SlotState, E>> {
        let (key, state) = (entry.key(), entry.state());
        if state.is_closed() {
            drop(entry);
            self.queue(staleness, key, access, operand());
        } else if access.kind == AccessKind::Set {
            // The owner executes the set. Until then, the copy has updates from before the set; afterwards it
            // lacks the set.
            self.close(core, out, entry);
            self.queue(staleness, key, access, operand());
        } else if access.kind == AccessKind::Pull && !core.shared.is_fresh(key, &state, access.need) {
            drop(entry);
            self.park(core, out, staleness, key, &state, access);
        } else {
            return Some(entry);
        }
        None
    }

    /// The replica serves no access from now on. After it has been dropped, waiting accesses are sent to the
    /// owner.
    fn close(&mut self, core: &Core<E>, out: &mut Output, mut entry: Entry<'_, SlotState, E>) {
        let key = entry.key();
        entry.state_mut().set_closed(true);
        core.shared.set_part(&entry);
        drop(entry);
        if let Some(held) = self.held.get_mut(key) {
            held.closed = true;
            self.carry_on(core, out, key, Urge::Updates);
        }
    }

    /// An access waits until the replica of `key` is set up or dropped.
    pub(crate) fn queue(&mut self, staleness: &mut Staleness, key: Key, access: Access, operand: Bytes) {
        staleness.waits(&access);
        let held = self.held.get_mut(key).expect("an access waits only for a replica that has a record");
        held.queue(access, operand);
    }

    /// A read waits for a fresher copy of `key`, whose slot is `state`.
    pub(crate) fn park(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        staleness: &mut Staleness,
        key: Key,
        state: &SlotState,
        access: Access,
    ) {
        out.stats.stale_reads += 1;
        staleness.park(key, access);
        if state.role == Role::Replica && core.policy().replicas == Some(Replicas::Lazy) {
            self.want(core, out, key, state, access.need);
        }
    }

    /// An access of a worker here to `key` was sent to another node.
    pub(crate) fn sent_away(&mut self, core: &Core<E>, key: Key) {
        if let Some(Replicas::Directed { .. }) = core.policy().replicas {
            *self.unanswered.entry(key).or_insert(0) += 1;
        }
    }

    /// An access that was sent away has been served here, after other nodes forwarded it.
    pub(crate) fn came_back(&mut self, key: Key) {
        if let Some(count) = self.unanswered.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.unanswered.remove(&key);
            }
        }
    }

    /// Accesses to `keys` that were sent away have been answered.
    pub(crate) fn answered(&mut self, core: &Core<E>, out: &mut Output, keys: &[Key]) {
        if self.unanswered.is_empty() && self.held.is_empty() {
            return;
        }
        for key in keys {
            self.came_back(*key);
            self.end_if_due(core, out, *key);
        }
    }
}
