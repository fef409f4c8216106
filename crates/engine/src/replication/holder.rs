//! The holder's part of replication: replicas of keys that other nodes own. See the table in
//! [`intendant_techniques::replication`].
//!
//! [`Holder`] asks owners for replicas, sends deltas, processes the owners' updates, and drops replicas.
//! Accesses that wait for a replica to be set up or dropped are queued in its record.

use super::held::{Generations, Held};
use super::key_list::KeyList;
use super::pool::Pool;
use super::portion::Portion;
use super::staleness::Staleness;
use crate::channel::core::{Core, Hash};
use crate::channel::effects::{Access, Effect, Output};
use crate::decisions::DecisionKind;
use crate::error::ProtocolError;
use crate::key_table::KeyTable;
use crate::node::Shared;
use crate::outgoing::replication::RequestRoute;
use bytes::Bytes;
use hashbrown::HashMap;
use intendant_core::{Element, Key, copy_from_bytes, copy_to_bytes};
use intendant_store::Entry;
use intendant_techniques::replication::{Dropped, Stage};
use intendant_techniques::{Replicas, Role, SlotState};
use intendant_wire::{AccessKind, ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind};
use std::collections::{BTreeSet, VecDeque};

/// The replicas that this node holds of a channel's keys.
pub(crate) struct Holder<E> {
    held: KeyTable<Held<E>>,
    generations: Generations,
    /// Keys whose replicas have unsent updates. An entry is obsolete if the slot's dirty flag is clear.
    dirty: KeyList,
    /// By key, accesses of this node's workers that were sent away and are not answered. While there are any,
    /// the registration must not be dropped: the owner must send their effect to this node before it answers
    /// them.
    unanswered: HashMap<Key, usize, Hash>,
    /// Clocks and keys of replicas that are to be dropped when they are too old. An entry's clock may be
    /// older than the replica's; it is checked again when it comes up.
    aging: BTreeSet<(u32, Key)>,
    /// The value of an update, while it is processed.
    value: Vec<E>,
    /// Memory of replicas that were dropped, for new ones.
    pool: Pool<E>,
}

/// One key of a [`ReplicaUpdate`].
#[derive(Clone, Copy)]
pub(crate) struct Update<'a> {
    kind: ReplicaUpdateKind,
    key: Key,
    generation: u32,
    seq: u32,
    version: u32,
    clock: u32,
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
            value: &update.values[offset..offset + value_bytes],
        }
    }
}

impl<E: Element> Holder<E> {
    /// No replicas.
    pub(crate) fn new(shared: &Shared<E>) -> Self {
        Self {
            held: KeyTable::new(shared.layout(), shared.is_lazy()),
            generations: Generations::default(),
            dirty: KeyList::default(),
            unanswered: HashMap::default(),
            aging: BTreeSet::new(),
            value: Vec::new(),
            pool: Pool::default(),
        }
    }

    /// Whether this node holds, or has asked for, a replica of `key`.
    pub(crate) fn holds(&self, key: Key) -> bool {
        self.held.contains(key)
    }

    /// Prefetches the records of the keys behind the one at `at`.
    pub(crate) fn prefetch(&self, keys: &[Key], at: usize) {
        self.held.prefetch(keys, at);
    }

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

    /// Sends the unsent updates of `key` now, or in the next round if they must wait.
    pub(crate) fn send_soon(&mut self, core: &Core<E>, out: &mut Output, key: Key) {
        if !self.carry_on(core, out, key) {
            self.list(key);
        }
    }

    /// The replicas that are listed now are those whose updates [`Holder::send_gathered`] sends.
    pub(crate) fn gather(&mut self) {
        self.dirty.gather();
    }

    /// Number of gathered replicas that have not been processed.
    pub(crate) fn gathered(&self) -> usize {
        self.dirty.gathered()
    }

    /// Sends the unsent updates of a portion of the gathered replicas. Those that must wait are listed again;
    /// `waits` gets their keys. Returns whether all have been processed.
    pub(crate) fn send_gathered(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        portion: &mut Portion,
        mut waits: impl FnMut(Key),
    ) -> bool {
        let (keys, mut at) = self.dirty.take_gathered();
        out.outgoing.replication.expect(portion.room(core, &keys[at..]));
        while let Some(key) = keys.get(at).copied()
            && !portion.is_used_up()
        {
            core.shared.prefetch(&keys, at);
            self.held.prefetch(&keys, at);
            at += 1;
            let Some(held) = self.held.get_mut(key).filter(|held| held.listed) else {
                portion.use_up(0);
                continue;
            };
            self.dirty.remove(&mut held.listed);
            portion.use_up(core.value_bytes(key));
            if !self.carry_on(core, out, key) {
                self.list(key);
                waits(key);
            }
        }
        self.dirty.put_back(keys, at);
        self.gathered() == 0
    }

    /// Whether this node holds, or has asked for, any replica.
    pub(crate) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether the replica of `key`, held or asked for, is to stay; `None` if there is none.
    pub(crate) fn wants(&self, key: Key) -> Option<bool> {
        self.held.get(key).map(|held| held.wanted)
    }

    /// Replicas here that are not settled: the owner does not know of them yet, or a delta or a drop is in
    /// flight.
    pub(crate) fn unsettled(&self, replicas: Option<Replicas>) -> usize {
        let unsettled = self
            .held
            .iter()
            .filter(|(_, held)| held.replica.stage() != Stage::Held || held.replica.is_sending())
            .count();
        // Under lazy replication a settled node holds none.
        if replicas == Some(Replicas::Lazy) { self.held.len() } else { unsettled }
    }

    /// A replica of `key` is wanted here, with all updates up to clock `need`. `state` is the key's slot.
    pub(crate) fn want(&mut self, core: &Core<E>, out: &mut Output, key: Key, state: &SlotState, need: u32) {
        let Some(held) = self.held.get_mut(key) else {
            let generation = self.generations.fresh();
            let held = Held::new(generation, core.shared.layout().combine(), core.now);
            self.held.insert(key, held).ask(need);
            return ask(core, out, key, state, generation, need);
        };
        held.wanted = true;
        if held.closed {
            return;
        }
        if held.replica.stage() == Stage::Dropping {
            self.revive(core, out, key, state, need);
        } else if held.ask(need) {
            ask(core, out, key, state, held.replica.generation(), need);
        }
    }

    fn revive(&mut self, core: &Core<E>, out: &mut Output, key: Key, state: &SlotState, need: u32) {
        let held = self.held.get_mut(key).expect("a dropped replica has a record");
        let generation = self.generations.after(held.replica.generation());
        held.replica.revive(generation);
        held.since = core.now;
        held.reached(u32::MAX);
        held.ask(need);
        ask(core, out, key, state, generation, need);
    }

    /// The replica of `key` is not wanted any more.
    pub(crate) fn unwant(&mut self, core: &Core<E>, out: &mut Output, key: Key) {
        if let Some(held) = self.held.get_mut(key) {
            held.wanted = false;
            self.end_if_due(core, out, key);
        }
    }

    /// Drops all replicas, and sends their unsent updates at once.
    pub(crate) fn unwant_all(&mut self, core: &Core<E>, out: &mut Output) {
        let mut keys: Vec<Key> = self.held.iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        for key in keys {
            self.unwant(core, out, key);
            self.carry_on(core, out, key);
        }
    }

    /// Drops replicas that are too old for readers that need `need`, under lazy replication.
    pub(crate) fn age(&mut self, core: &Core<E>, out: &mut Output, need: u32) {
        if core.policy().replicas != Some(Replicas::Lazy) {
            return;
        }
        while let Some((clock, key)) = self.aging.first().copied()
            && clock < need
        {
            self.aging.pop_first();
            let state = core.state(key);
            if state.role == Role::Replica && state.side < need {
                self.unwant(core, out, key);
            }
        }
    }

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
            // The owner executes it. Until then, the copy has updates from before the set; afterwards it
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
            self.carry_on(core, out, key);
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

    /// Sends the unsent updates of `key`, or asks the owner to drop the registration. Returns false if there
    /// are updates that must wait: for a value, or for the answer to the delta in flight.
    pub(crate) fn carry_on(&mut self, core: &Core<E>, out: &mut Output, key: Key) -> bool {
        let Some(held) = self.held.get_mut(key) else { return true };
        let (mut entry, role) = core.shared.latch(key);
        if role != Role::Replica {
            return true;
        }
        if held.replica.stage() != Stage::Held || held.replica.is_sending() {
            return !entry.state().is_dirty();
        }
        let (ends, generation) = (held.ends(), held.replica.generation());
        if entry.state().is_dirty() {
            entry.state_mut().set_dirty(false);
            self.dirty.remove(&mut held.listed);
            let state = entry.state();
            let value = entry.value_mut().expect("a replica has a value");
            let drift = core.shared.urgent().map(|urgent| {
                let updates = held.allowance.wrapping_sub(state.side);
                let change = held.replica.change(value);
                held.allowance = urgent.allowance(updates, change);
                (updates, change)
            });
            held.replica.reserve(|| self.pool.take(value.len()));
            let delta = held.replica.collect(value);
            if drift.is_some() {
                entry.state_mut().side = held.allowance;
            }
            if let Some((seq, delta)) = delta {
                drop(entry);
                drift.into_iter().for_each(|(updates, change)| out.stats.drifted(updates, change));
                out.stats.synced_keys += 1;
                let route = route_to_owner(core, key, &state, ReplicaRequestKind::Delta);
                let bytes = size_of_val(delta);
                let append = |values: &mut Vec<u8>| copy_to_bytes(delta, values);
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

    /// Drops a replica that is to end, if it waits for nothing any more. Its updates are sent in the next
    /// round or at the next clock: otherwise a replica that workers keep updating would send a delta per
    /// round trip. They are sent at once only if an access waits for the end.
    fn end_if_due(&mut self, core: &Core<E>, out: &mut Output, key: Key) {
        let Some(held) = self.held.get(key).filter(|held| held.ends()) else { return };
        let closed = held.closed;
        let (entry, role) = core.shared.latch(key);
        let updated = role == Role::Replica && entry.state().is_dirty();
        drop(entry);
        if updated && !closed {
            self.list(key);
        } else {
            self.carry_on(core, out, key);
        }
    }

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
                if held.replica.acknowledged(version, seq) {
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
        let Update { key, seq, version, clock, value: bytes, .. } = update;
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
            copy_from_bytes(&mut main, bytes);
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
            copy_from_bytes(&mut self.value, bytes);
            held.replica.refresh(version, seq, &self.value, value, updated)
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
        out.decisions.note(core.now, key, DecisionKind::SetUp);
        for (access, operand) in held.take_queue() {
            staleness.waited(&access);
            out.effects.push(Effect::Resume { key, access, operand });
        }
        // After them: what they add is sent with the updates of the replica.
        out.effects.push(Effect::ReplicaRenewed { key });
        Ok(())
    }

    /// The replica of `key` has been renewed, and the accesses that waited for it have continued.
    pub(crate) fn renewed(&mut self, core: &Core<E>, out: &mut Output, staleness: &mut Staleness, key: Key) {
        let ends = self.held.get(key).is_some_and(Held::ends);
        self.settle(core, out, staleness, key, ends);
        staleness.unpark(out, key);
    }

    /// The message in flight for a replica, which is to end if `ends`, has been answered: continues what
    /// waited for that.
    fn settle(&mut self, core: &Core<E>, out: &mut Output, staleness: &mut Staleness, key: Key, ends: bool) {
        if staleness.is_blocked_by(key) {
            if self.carry_on(core, out, key) {
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
                out.decisions.note(core.now, key, DecisionKind::GivenUp);
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
        held.replica.promote(merged, &self.value, copy, updated);
        let queue = held.take_queue();
        self.pool.put(held.replica.into_memory());
        queue
    }
}

/// The route of a holder's request about `key`: to the owner, as far as this node knows.
fn route_to_owner<E: Element>(
    core: &Core<E>,
    key: Key,
    state: &SlotState,
    kind: ReplicaRequestKind,
) -> RequestRoute {
    RequestRoute { to: core.first_hop(key, state), holder: core.node(), kind, hops: 0 }
}

/// Asks the owner (the home, if homes decide) for a replica of `key` with all updates up to clock `need`.
fn ask<E: Element>(
    core: &Core<E>,
    out: &mut Output,
    key: Key,
    state: &SlotState,
    generation: u32,
    need: u32,
) {
    if !core.policy().homes_decide() {
        ask_owner(core, out, key, state, generation, need);
        return;
    }
    let home = core.shared.directory().home(key);
    if home == core.node() {
        out.effects.push(Effect::AskHome { key, generation, need });
        return;
    }
    let route = RequestRoute { to: home, holder: core.node(), kind: ReplicaRequestKind::Ask, hops: 0 };
    out.outgoing.replication.request(route, key, generation, need, core.value_bytes(key), |_| ());
}

/// Asks the owner for a replica of `key` with all updates up to clock `need`.
pub(crate) fn ask_owner<E: Element>(
    core: &Core<E>,
    out: &mut Output,
    key: Key,
    state: &SlotState,
    generation: u32,
    need: u32,
) {
    let route = route_to_owner(core, key, state, ReplicaRequestKind::Ask);
    out.outgoing.replication.request(route, key, generation, need, core.value_bytes(key), |_| ());
}

/// Asks the owner to drop the registration of `key` under `generation`.
fn request_drop<E: Element>(core: &Core<E>, out: &mut Output, key: Key, state: &SlotState, generation: u32) {
    let route = route_to_owner(core, key, state, ReplicaRequestKind::Drop);
    out.outgoing.replication.request(route, key, generation, 0, core.value_bytes(key), |_| ());
}

/// Refuses a set-up under an old generation. Otherwise the owner would go on to treat this node as a holder.
fn refuse<E: Element>(core: &Core<E>, out: &mut Output, key: Key, generation: u32) {
    let (entry, role) = core.shared.latch(key);
    let state = entry.state();
    drop(entry);
    if matches!(role, Role::Absent | Role::Replica) {
        request_drop(core, out, key, &state, generation);
    }
}

/// Checks that an update is possible: there are replicas, and it carries their values.
///
/// # Errors
/// If it is not.
pub(crate) fn check_update<E: Element>(core: &Core<E>, update: &ReplicaUpdate) -> Result<(), ProtocolError> {
    let ReplicaUpdate { kind, keys, counters, values, .. } = update;
    if core.policy().replicas.is_none() {
        return Err(core.not_in_technique("sends updates of replicas"));
    }
    core.check_keys(keys)?;
    let expected = if carries_values(*kind) { core.values_bytes(keys) } else { 0 };
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
