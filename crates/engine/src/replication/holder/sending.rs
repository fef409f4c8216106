//! What holders send to owners: deltas, in portions of rounds or when they are urgent, and drops of replicas
//! that are not wanted any more.

use super::super::held::Urge;
use super::super::portion::Portion;
use super::super::staleness::Staleness;
use super::Holder;
use super::requests::{request_drop, route_to_owner};
use crate::channel::core::Core;
use crate::channel::effects::Output;
use intendant_core::{Element, Key, Precision, Updates};
use intendant_techniques::Role;
use intendant_techniques::replication::Stage;
use intendant_wire::ReplicaRequestKind;

impl<E: Element> Holder<E> {
    /// Number of replicas that are listed because they may have unsent updates.
    pub(crate) fn listed(&self) -> usize {
        self.dirty.len()
    }

    /// The replica of `key` has unsent updates, which the next round sends.
    pub(crate) fn list(&mut self, key: Key) {
        if let Some(held) = self.held.get_mut(key) {
            self.dirty.insert(key, &mut held.listed);
        }
    }

    /// Sends the unsent updates of `key` now, or in the next round if they must wait, or are not significant.
    pub(crate) fn send_soon(&mut self, core: &Core<E>, out: &mut Output, key: Key) {
        let significant = core.shared.replication().significant;
        if significant.is_some_and(|least| self.hold_back(core, out, key, least)) {
            return;
        }
        if !self.carry_on(core, out, key, Urge::Updates) {
            self.list(key);
        }
    }

    /// Lists the replicas with a remainder, in addition to those with unsent updates.
    pub(crate) fn list_remainders(&mut self) {
        let remain = self.held.iter().filter(|(_, held)| held.replica.has_remainder());
        let mut keys: Vec<Key> = remain.map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.into_iter().for_each(|key| self.list(key));
    }

    /// Gathers the replicas that are listed now: [`Holder::send_gathered`] sends their updates.
    pub(crate) fn gather(&mut self) {
        self.dirty.gather();
    }

    /// Number of gathered replicas that have not been processed.
    pub(crate) fn gathered(&self) -> usize {
        self.dirty.gathered()
    }

    /// Sends the unsent updates of a portion of the gathered replicas. Those that must wait are listed again;
    /// `waits` gets their keys. Those that change their replica by less than `significant` of its norm are
    /// listed again as well. Returns whether all have been processed.
    pub(crate) fn send_gathered(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        portion: &mut Portion,
        significant: Option<f64>,
        urge: Urge,
        mut waits: impl FnMut(Key),
    ) -> bool {
        let (keys, mut at) = self.dirty.take_gathered();
        out.outgoing.replication.expect(portion.room(core, &keys[at..]));
        while let Some(key) = keys.get(at).copied()
            && !portion.is_used_up()
        {
            core.shared.ahead().values(&keys, at);
            self.held.prefetch(&keys, at);
            at += 1;
            let Some(held) = self.held.get_mut(key).filter(|held| held.listed) else {
                portion.use_up(0);
                continue;
            };
            self.dirty.remove(&mut held.listed);
            if significant.is_some_and(|least| self.hold_back(core, out, key, least)) {
                portion.use_up(0);
                continue;
            }
            portion.use_up(core.value_bytes(key));
            if !self.carry_on(core, out, key, urge) {
                self.list(key);
                waits(key);
            }
        }
        self.dirty.put_back(keys, at);
        self.gathered() == 0
    }

    /// Lists the unsent updates of `key` for the next round if the replica stays and they change it by less
    /// than `least` of its norm; returns whether they do. An urgent replica begins to count again. Operands
    /// of a rule may matter without changing the value here, and are not held back.
    fn hold_back(&mut self, core: &Core<E>, out: &mut Output, key: Key, least: f64) -> bool {
        let updates = core.shared.layout().updates(key);
        let Some(held) = self.held.get_mut(key).filter(|held| !held.ends()) else { return false };
        let (mut entry, role) = core.shared.latch(key);
        let waits = held.replica.stage() != Stage::Held || held.replica.is_sending();
        if matches!(updates, Updates::Rule(_)) || role != Role::Replica || !entry.state().is_dirty() || waits
        {
            return false;
        }
        let change = held.replica.change(updates, entry.value_mut().expect("a replica has a value"));
        if change >= least {
            return false;
        }
        if let Some(urgent) = core.shared.urgent().filter(|_| entry.state().is_urgent()) {
            let count = held.allowance.wrapping_sub(entry.state().side);
            let more = urgent.allowance(count, change);
            held.allowance = count.saturating_add(more);
            entry.state_mut().side = more;
        }
        drop(entry);
        out.stats.held_back += 1;
        self.list(key);
        true
    }

    /// Sends the unsent updates of `key`, or asks the owner to drop the registration. The remainder of
    /// rounded deltas is sent as well, exactly, if the replica is to end, or with `Urge::Remainder`. Returns
    /// false if there are updates that must wait: for a value, or for the answer to the delta in flight.
    pub(crate) fn carry_on(&mut self, core: &Core<E>, out: &mut Output, key: Key, urge: Urge) -> bool {
        let Some(held) = self.held.get_mut(key) else { return true };
        let (mut entry, role) = core.shared.latch(key);
        if role != Role::Replica {
            return true;
        }
        let (ends, generation) = (held.ends(), held.replica.generation());
        let exact = ends || urge == Urge::Remainder;
        let updated = entry.state().is_dirty() || exact && held.replica.has_remainder();
        if held.replica.stage() != Stage::Held || held.replica.is_sending() {
            return !updated;
        }
        if updated {
            entry.state_mut().set_dirty(false);
            self.dirty.remove(&mut held.listed);
            let (state, updates) = (entry.state(), core.shared.layout().updates(key));
            let value = entry.value_mut().expect("a replica has a value");
            held.replica.reserve(|| self.pool.take(core.shared.layout().operand(key)));
            let precision = if exact { Precision::Exact } else { core.precision() };
            let collected = held.replica.collect(updates, precision, value).expect("it may send a delta");
            let change = collected.change;
            let count = core.shared.urgent().map(|urgent| {
                let count = held.allowance.wrapping_sub(state.side);
                held.allowance = urgent.allowance(count, change);
                entry.state_mut().side = held.allowance;
                count
            });
            if let Some((seq, delta)) = collected.delta {
                drop(entry);
                count.into_iter().for_each(|updates| out.stats.drifted(updates, change));
                out.stats.synced_keys += 1;
                let route = route_to_owner(core, key, &state, ReplicaRequestKind::Delta, precision);
                let bytes = (core.value_bytes(key), precision.bytes::<E>(size_of_val(delta)));
                let append = |values: &mut Vec<u8>| precision.write(delta, values);
                out.outgoing.replication.request(route, key, generation, seq, bytes, append);
                return true;
            }
        }
        if ends && !self.unanswered.contains_key(&key) && held.replica.drop_out() {
            let state = entry.state();
            drop(entry);
            request_drop(core, out, key, &state, generation);
        }
        true
    }

    /// Drops a replica that is to end, if it waits for nothing any more. Its updates are sent in the next
    /// round or at the next clock: otherwise a replica that workers keep updating would send a delta per
    /// round trip. They are sent at once only if an access waits for the end.
    pub(super) fn end_if_due(&mut self, core: &Core<E>, out: &mut Output, key: Key) {
        let Some(held) = self.held.get(key).filter(|held| held.ends()) else { return };
        let closed = held.closed;
        let (entry, role) = core.shared.latch(key);
        let updated = role == Role::Replica && entry.state().is_dirty();
        drop(entry);
        if updated && !closed {
            self.list(key);
        } else {
            self.carry_on(core, out, key, Urge::Updates);
        }
    }

    /// The message in flight for a replica, which is to end if `ends`, has been answered: continues what
    /// waited for that.
    pub(super) fn settle(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        staleness: &mut Staleness,
        key: Key,
        ends: bool,
    ) {
        if staleness.is_blocked_by(key) {
            if self.carry_on(core, out, key, Urge::Updates) {
                staleness.unblock(key);
            }
        } else {
            let state = core.shared.latch(key).0.state();
            match core.shared.urgent() {
                _ if !state.is_dirty() => {}
                // It became urgent while the delta was in flight.
                Some(urgent) if state.is_urgent() => urgent.list(core.id, key),
                // In the next round, unless an access waits for the end.
                Some(_) | None => self.list(key),
            }
        }
        if ends {
            self.end_if_due(core, out, key);
        }
    }
}
