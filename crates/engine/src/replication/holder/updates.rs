//! Updates that owners send to holders: set-ups, new values, acknowledgements and drops; and the main copy,
//! which replaces a replica.

use super::super::held::Held;
use super::super::staleness::Staleness;
use super::Holder;
use super::requests::refuse;
use crate::channel::core::Core;
use crate::channel::effects::{Access, Effect, Output};
use crate::error::ProtocolError;
use bytes::Bytes;
use intendant_core::{Element, Key, Precision, copy_from_bytes};
use intendant_store::Entry;
use intendant_techniques::replication::{Dropped, Stage};
use intendant_techniques::{Replicas, Role, SlotState};
use intendant_trace::What;
use intendant_wire::{ReplicaUpdate, ReplicaUpdateKind};
use std::collections::VecDeque;

/// One key of a [`ReplicaUpdate`].
#[derive(Clone, Copy)]
pub(crate) struct Update<'a> {
    kind: ReplicaUpdateKind,
    key: Key,
    generation: u32,
    seq: u32,
    version: u32,
    clock: u32,
    precision: Precision,
    value: &'a [u8],
}

impl<'a> Update<'a> {
    /// The key at `at`, whose value begins at `offset` and has `value_bytes` bytes if the update carries
    /// values.
    pub(crate) fn at(update: &'a ReplicaUpdate, at: usize, offset: usize, value_bytes: usize) -> Self {
        let number = |numbers: &[u32]| numbers.get(at).copied().unwrap_or(0);
        Self {
            kind: update.kind,
            key: update.keys[at],
            generation: update.generations[at],
            seq: number(&update.seqs),
            version: number(&update.versions),
            clock: update.clock,
            precision: update.precision,
            value: &update.values[offset..offset + value_bytes],
        }
    }
}

impl<E: Element> Holder<E> {
    /// The owner sends an update about one replica here.
    ///
    /// # Errors
    /// If it sets up a replica of a key that cannot have one here.
    pub(crate) fn on_update(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        staleness: &mut Staleness,
        update: Update<'_>,
    ) -> Result<(), ProtocolError> {
        let Update { kind, key, generation, seq, version, .. } = update;
        let held = self.held.get_mut(key).filter(|held| held.replica.generation() == generation);
        match (kind, held) {
            (ReplicaUpdateKind::SetUp, None) => refuse(core, out, key, generation),
            (ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh, Some(_)) => {
                self.renew(core, out, staleness, update)?;
            }
            (ReplicaUpdateKind::Acknowledged, Some(held)) => {
                if held.replica.acknowledged(core.shared.layout().updates(key), version, seq) {
                    let ends = held.ends();
                    self.settle(core, out, staleness, key, ends);
                }
            }
            (ReplicaUpdateKind::Dropped, Some(_)) => self.on_dropped(core, out, staleness, key, generation),
            (
                ReplicaUpdateKind::Refresh | ReplicaUpdateKind::Acknowledged | ReplicaUpdateKind::Dropped,
                None,
            ) => {}
        }
        Ok(())
    }

    /// The owner has sent the value of the main copy.
    fn renew(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        staleness: &mut Staleness,
        update: Update<'_>,
    ) -> Result<(), ProtocolError> {
        let Update { key, seq, version, clock, precision, value: bytes, .. } = update;
        let replicas = core.policy().replicas;
        let held = self.held.get_mut(key).expect("the caller has found the record");
        let (mut entry, role) = core.shared.latch(key);
        let new = held.replica.stage() == Stage::Asking;
        let answered = (new || held.replica.stage() == Stage::Reviving).then_some(held.since);
        let updated = entry.state().is_dirty() && !new;
        if new {
            if role != Role::Absent {
                return Err(ProtocolError::SetUpRole { key, role });
            }
            let mut main = self.pool.take(core.shared.layout().len(key));
            precision.read(&mut main, bytes);
            entry.overwrite().copy_from_slice(&main);
            held.replica.set_up(version, main);
            let state = entry.state_mut();
            state.role = Role::Replica;
            state.side = 0;
            if let Some(urgent) = core.shared.urgent() {
                held.allowance = urgent.first_allowance();
                state.side = held.allowance;
            }
            state.set_closed(held.closed);
            core.shared.set_part(&entry);
            out.stats.replica_setups += 1;
        }
        let newer = new || {
            let value = entry.value_mut().expect("a replica has a value");
            self.value.resize(value.len(), E::ZERO);
            precision.read(&mut self.value, bytes);
            held.replica.refresh(
                core.shared.layout().updates(key),
                (version, seq),
                &self.value,
                value,
                updated,
            )
        };
        out.stats.synced_keys += u64::from(newer);
        // An update with the same value may carry a later clock.
        if newer || version == held.replica.version() {
            let state = entry.state_mut();
            if replicas.is_some_and(Replicas::is_clocked) {
                state.side = state.side.max(clock);
            }
            held.reached(clock);
            if replicas == Some(Replicas::Lazy) {
                self.aging.insert((entry.state().side, key));
            }
        }
        drop(entry);
        out.effects.extend(answered.map(|since| Effect::OwnerAnswered { since }));
        if !new {
            self.renewed(core, out, staleness, key);
            return Ok(());
        }
        out.events.decided(core.now, key, What::ReplicaSetUp);
        for (access, operand) in held.take_queue() {
            staleness.waited(&access);
            out.effects.push(Effect::Resume { key, access, operand });
        }
        // After the waiting accesses: their updates are sent together with those of the replica.
        out.effects.push(Effect::ReplicaRenewed { key });
        Ok(())
    }

    /// The replica of `key` has been renewed, and the accesses that waited for it have continued.
    pub(crate) fn renewed(&mut self, core: &Core<E>, out: &mut Output, staleness: &mut Staleness, key: Key) {
        let ends = self.held.get(key).is_some_and(Held::ends);
        self.settle(core, out, staleness, key, ends);
        staleness.unpark(out, key);
    }

    fn on_dropped(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        staleness: &mut Staleness,
        key: Key,
        generation: u32,
    ) {
        let held = self.held.get_mut(key).expect("the caller has found the record");
        let (mut entry, _) = core.shared.latch(key);
        let state = entry.state();
        match held.replica.dropped(generation, state.is_dirty()) {
            Dropped::Stale => {}
            Dropped::Updated => {
                drop(entry);
                self.revive(core, out, key, &state, 0);
            }
            Dropped::Gone => {
                entry.release();
                let slot = entry.state_mut();
                slot.role = Role::Absent;
                slot.side = 0;
                slot.set_closed(false);
                core.shared.set_part(&entry);
                if core.shared.is_lazy() && entry.state() == SlotState::default() {
                    entry.remove();
                } else {
                    drop(entry);
                    out.effects.push(Effect::SlotRemembers { key });
                }
                out.stats.replica_drops += 1;
                out.events.decided(core.now, key, What::ReplicaDropped);
                let mut held = self.forget(staleness, key).expect("the caller has found the record");
                for (access, operand) in held.take_queue() {
                    staleness.waited(&access);
                    out.effects.push(Effect::Resume { key, access, operand });
                }
                staleness.unpark(out, key);
                if held.wanted {
                    out.effects.push(Effect::ReplicaWanted { key });
                }
                self.pool.put(held.replica.into_memory());
            }
        }
    }

    /// The replica of `key` has been dropped or has become the main copy. Returns its record.
    fn forget(&mut self, staleness: &mut Staleness, key: Key) -> Option<Held<E>> {
        staleness.unblock(key);
        let mut held = self.held.remove(key)?;
        self.dirty.remove(&mut held.listed);
        Some(held)
    }

    /// The main copy of `entry`'s key has arrived with value `bytes`; `merged` is the generation and the
    /// number of this holder's last delta that it contains, if the owner knew this holder. Writes the value
    /// and returns the accesses that waited for a replica.
    pub(crate) fn promote(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        staleness: &mut Staleness,
        entry: &mut Entry<'_, SlotState, E>,
        merged: Option<(u32, u32)>,
        bytes: &[u8],
    ) -> VecDeque<(Access, Bytes)> {
        let key = entry.key();
        let Some(mut held) = self.forget(staleness, key) else {
            copy_from_bytes(entry.overwrite(), bytes);
            return VecDeque::new();
        };
        let stage = held.replica.stage();
        if matches!(stage, Stage::Asking | Stage::Reviving) {
            out.effects.push(Effect::OwnerAnswered { since: held.since });
        }
        if stage == Stage::Asking {
            copy_from_bytes(entry.overwrite(), bytes);
            return held.take_queue();
        }
        out.stats.replica_drops += 1;
        let updated = entry.state().is_dirty();
        let copy = entry.value_mut().expect("a replica has a value");
        self.value.resize(copy.len(), E::ZERO);
        copy_from_bytes(&mut self.value, bytes);
        held.replica.promote(core.shared.layout().updates(key), merged, &self.value, copy, updated);
        let queue = held.take_queue();
        self.pool.put(held.replica.into_memory());
        queue
    }
}

/// Checks that an update is possible: there are replicas, and it carries their values.
///
/// # Errors
/// If it is not.
pub(crate) fn check_update<E: Element>(core: &Core<E>, update: &ReplicaUpdate) -> Result<(), ProtocolError> {
    let ReplicaUpdate { kind, keys, counters, precision, values, .. } = update;
    if core.policy().replicas.is_none() {
        return Err(core.not_in_technique("sends updates of replicas"));
    }
    core.check_precision(*precision)?;
    core.check_keys(keys)?;
    let expected = if carries_values(*kind) { precision.bytes::<E>(core.values_bytes(keys)) } else { 0 };
    let message = || format!("{kind:?}");
    ProtocolError::unless_bytes(message, values.len(), expected)?;
    let expected = if core.policy().caches() { keys.len() } else { 0 };
    if counters.len() == expected {
        return Ok(());
    }
    Err(ProtocolError::Counters { message: message(), found: counters.len(), expected })
}

/// Whether updates of this kind carry values.
pub(crate) fn carries_values(kind: ReplicaUpdateKind) -> bool {
    match kind {
        ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh => true,
        ReplicaUpdateKind::Acknowledged | ReplicaUpdateKind::Dropped => false,
    }
}
