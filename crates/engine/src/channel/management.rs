//! Flows that involve several mechanisms: hand-overs, with and without registrations; moves and replicas that
//! the caller asks for; replica requests and updates; rounds of intents and the owner's rule; reports and
//! orders if homes decide.

use super::Channel;
use super::core::Core;
use super::effects::{Access, Output};
use crate::error::ProtocolError;
use crate::intent::Intents;
use crate::intent::home::Home;
use crate::outgoing::relocation::Departing;
use crate::relocation::{self, check_initiator};
use crate::replication::held::Urge;
use crate::replication::holder::{self, Update};
use crate::replication::owner::{self, Owner, Request};
use crate::replication::{self, check_rows};
use bytes::Bytes;
use intendant_core::{Element, Key, NodeId};
use intendant_store::Entry;
use intendant_techniques::replication::{AskOutcome, Hub};
use intendant_techniques::{Decider, Initiator, Replicas, Role, SlotState};
use intendant_trace::{Cause, What};
use intendant_wire::{
    AccessKind, HandOver, IntentReport, Moved, Relocate, ReplicaRequest, ReplicaRequestKind, ReplicaUpdate,
};
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

impl<E: Element> Channel<E> {
    /// Moves to node `to` those of `keys` that this node owns.
    pub(super) fn on_relocate_input(&mut self, keys: &[Key], to: NodeId) {
        let (core, out) = (&self.core, &mut self.out);
        let allowed = check_initiator(core, Initiator::Owner, "relocates by the caller's decision")
            .and_then(|()| core.check_keys(keys));
        allowed.unwrap_or_else(|wrong| panic!("the caller of this channel: {wrong}"));
        assert!(
            to.index() < core.shared.layout().nodes(),
            "keys cannot move to node {to}: it does not exist"
        );
        for key in keys {
            let (mut entry, role) = core.shared.latch(*key);
            if role.is_owner() && to != core.node() {
                out.events.note(core.now, *key, What::Left { to, cause: Cause::Ordered });
                move_owned(core, out, &mut self.replication.owner, &mut entry, to);
            }
        }
    }

    /// Moves a key that is owned here to `to`.
    pub(super) fn move_key(&mut self, key: Key, to: NodeId, cause: Cause) {
        let (core, out) = (&self.core, &mut self.out);
        let (mut entry, role) = core.shared.latch(key);
        intendant_core::strict_assert!(role.is_owner() && to != core.node(), "{key:?} is {role:?} here");
        out.events.decided(core.now, key, What::Left { to, cause });
        move_owned(core, out, &mut self.replication.owner, &mut entry, to);
    }

    fn check_directed(&self, keys: &[Key]) {
        let directed = matches!(self.core.policy().replicas, Some(Replicas::Directed { .. }));
        assert!(directed, "technique {} does not direct replicas", self.core.policy().name);
        self.core.check_keys(keys).unwrap_or_else(|wrong| panic!("the caller of this channel: {wrong}"));
    }

    /// Sets up replicas of `keys` here.
    pub(super) fn on_replicate(&mut self, keys: &[Key]) -> Result<(), ProtocolError> {
        self.check_directed(keys);
        for key in keys {
            let state = self.core.state(*key);
            match state.role {
                Role::Absent | Role::Replica => {
                    self.replication.holder.want(&self.core, &mut self.out, *key, &state, 0);
                    self.hand_on()?;
                }
                Role::Owner | Role::Hub | Role::Static | Role::Arriving | Role::Leaving => {}
            }
        }
        Ok(())
    }

    /// Drops replicas of `keys` here.
    pub(super) fn on_unreplicate(&mut self, keys: &[Key]) {
        self.check_directed(keys);
        keys.iter().for_each(|key| self.replication.holder.unwant(&self.core, &mut self.out, *key));
    }

    /// Handles keys that arrive here.
    pub(super) fn on_hand_over(&mut self, from: NodeId, hand_over: &HandOver) -> Result<(), ProtocolError> {
        let HandOver { keys, counters, decided, holders, values } = hand_over;
        self.core.check_keys(keys)?;
        self.locations.check_decided(&self.core, decided)?;
        check_rows(&self.core, from, hand_over)?;
        let expected = self.core.values_bytes(keys);
        ProtocolError::unless_bytes(|| "hand-over".into(), values.len(), expected)?;
        let mut offset = 0;
        let mut rows = holders.iter().peekable();
        for (at, (key, counter)) in keys.iter().copied().zip(counters.iter().copied()).enumerate() {
            let value = &values[offset..offset + self.core.value_bytes(key)];
            offset += value.len();
            self.core.shared.ahead().arrivals(keys, at);
            self.replication.holder.prefetch(keys, at);
            let (core, out) = (&self.core, &mut self.out);
            let (mut entry, _) = core.shared.latch(key);
            relocation::check_arrival(core, key, entry.state(), counter)?;
            out.stats.relocations += 1;
            if core.policy().relocation == Some(Initiator::Owner) {
                out.events.decided(core.now, key, What::Arrived { from, after: 0 });
                intendant_techniques::relocation::arrive(entry.state_mut(), false, counter);
                let rows = std::iter::from_fn(|| rows.next_if(|row| row.at as usize == at));
                let waited = self.replication.arrive(core, out, &mut entry, value, rows);
                core.shared.set_part(&entry);
                drop(entry);
                self.arrived_with_holders(from, key, counter, waited)?;
            } else {
                self.relocation.arrive(core, out, from, entry, value, counter)?;
                self.arrived_without_home(from, key, counter, decided);
            }
        }
        Ok(())
    }

    /// The main copy of `key` has arrived by its owner's decision, with its holders. The accesses in `waited`
    /// waited for a replica of it.
    fn arrived_with_holders(
        &mut self,
        from: NodeId,
        key: Key,
        counter: u32,
        waited: VecDeque<(Access, Bytes)>,
    ) -> Result<(), ProtocolError> {
        let (core, out) = (&self.core, &mut self.out);
        let home = core.shared.directory().home(key);
        if home == core.node() {
            self.intents.home.arrived(core, out, key, counter);
        } else if home != from {
            // A home that hands a key over knows the new owner.
            out.outgoing.relocation.moved(home, key, counter);
        }
        self.hand_on()?;
        if waited.is_empty() {
            return Ok(());
        }
        let shared = Arc::clone(&self.core.shared);
        for (access, operand) in waited {
            self.replication.staleness.waited(&access);
            self.access(&shared, access, key, &operand, 0..operand.len())?;
        }
        Ok(())
    }

    /// Keys whose home is here have arrived at a new owner.
    pub(super) fn arrived_elsewhere(&mut self, moved: &Moved) -> Result<(), ProtocolError> {
        for (key, counter) in moved.keys.iter().copied().zip(moved.counters.iter().copied()) {
            self.intents.home.arrived(&self.core, &mut self.out, key, counter);
            self.hand_on()?;
        }
        Ok(())
    }

    /// The home of keys orders this node, their owner, to hand them over.
    pub(super) fn obey(&mut self, from: NodeId, relocate: &Relocate) -> Result<(), ProtocolError> {
        relocation::check_order(&self.core, relocate)?;
        let Relocate { to, keys, counters } = relocate;
        self.out.outgoing.relocation.expect(self.core.room(keys));
        for (at, (key, counter)) in keys.iter().copied().zip(counters.iter().copied()).enumerate() {
            let (core, out) = (&self.core, &mut self.out);
            core.shared.ahead().departures(keys, at);
            relocation::check_ordered_by_home(core, from, key)?;
            let (mut entry, role) = core.shared.latch(key);
            let state = entry.state();
            if !role.is_owner() || state.counter.wrapping_add(1) != counter {
                return Err(ProtocolError::OrderedAbsent { key, counter, state });
            }
            out.events.decided(core.now, key, What::Left { to: *to, cause: Cause::Ordered });
            move_owned(core, out, &mut self.replication.owner, &mut entry, *to);
            let state = entry.state();
            drop(entry);
            // The home's order and this node's report of its intent have crossed.
            if self.intents.active(key) > 0 {
                self.replication.holder.want(core, out, key, &state, 0);
            }
            self.hand_on()?;
        }
        Ok(())
    }

    /// Holders ask for replicas, send deltas, or drop replicas.
    pub(super) fn on_replica_request(
        &mut self,
        from: NodeId,
        request: &ReplicaRequest,
    ) -> Result<(), ProtocolError> {
        owner::check_request(&self.core, from, request)?;
        // The answers are for one holder, and the keys that move go there.
        let room = self.core.room(&request.keys);
        self.out.outgoing.replication.expect(room);
        self.out.outgoing.relocation.expect(room);
        let mut offset = 0;
        for (at, key) in request.keys.iter().copied().enumerate() {
            self.core.shared.ahead().departures(&request.keys, at);
            self.replication.owner.prefetch(&request.keys, at);
            self.intents.prefetch(&request.keys, at);
            let delta = request.kind == ReplicaRequestKind::Delta;
            let bytes = if delta { self.core.operand_bytes(AccessKind::Push, key) } else { 0 };
            let bytes = request.precision.bytes::<E>(bytes);
            self.replica_request(Request::at(request, at, offset, bytes))?;
            offset += bytes;
        }
        Ok(())
    }

    fn replica_request(&mut self, request: Request<'_>) -> Result<(), ProtocolError> {
        let Request { kind, key, holder, .. } = request;
        let (core, out) = (&self.core, &mut self.out);
        let (mut entry, role) = core.shared.latch(key);
        if !role.is_owner() {
            let state = entry.state();
            drop(entry);
            owner::check_forward(core, role, request)?;
            // If homes decide, the key itself may be on its way to the holder that asks.
            let at_home = core.policy().homes_decide() && core.shared.directory().is_home(key);
            let asks = kind == ReplicaRequestKind::Ask;
            if !(at_home && asks && self.intents.home.comes_to(key, &state, holder)) {
                owner::forward(core, out, &state, request);
            }
            return Ok(());
        }
        if holder == core.node() {
            // A ghost: the key has arrived at the holder meanwhile.
            return Ok(());
        }
        let replication::Replication { owner, staleness, .. } = &mut self.replication;
        match kind {
            ReplicaRequestKind::Ask => {
                if role == Role::Owner && move_to_first(core, out, &self.intents, &mut entry, request) {
                    return Ok(());
                }
                let outcome = owner.register(core, &mut entry, request);
                if outcome == AskOutcome::New {
                    if decide(core, out, &self.intents, owner, &mut entry, Cause::Began(holder)) {
                        return Ok(());
                    }
                    out.events.decided(core.now, key, What::HolderAdded { holder });
                    core.shared.set_part(&entry);
                }
                owner.answer(core, out, staleness, &mut entry, request, outcome)?;
            }
            ReplicaRequestKind::Delta => owner.merge(core, out, staleness.clock(), &mut entry, request)?,
            ReplicaRequestKind::Drop => {
                if owner.release(core, out, staleness, &mut entry, request) {
                    out.events.decided(core.now, key, What::HolderRemoved { holder });
                    core.shared.set_part(&entry);
                    decide(core, out, &self.intents, owner, &mut entry, Cause::Ended(holder));
                }
            }
        }
        Ok(())
    }

    /// The owner of keys sends updates about replicas here.
    pub(super) fn on_replica_update(
        &mut self,
        from: NodeId,
        update: &ReplicaUpdate,
    ) -> Result<(), ProtocolError> {
        holder::check_update(&self.core, update)?;
        let mut offset = 0;
        for (at, key) in update.keys.iter().copied().enumerate() {
            let (core, out) = (&self.core, &mut self.out);
            core.shared.ahead().values(&update.keys, at);
            self.replication.holder.prefetch(&update.keys, at);
            if let Some(counter) = update.counters.get(at) {
                self.relocation.learn(core, key, from, *counter);
            }
            let bytes = if holder::carries_values(update.kind) { core.value_bytes(key) } else { 0 };
            let bytes = update.precision.bytes::<E>(bytes);
            let row = Update::at(update, at, offset, bytes);
            offset += bytes;
            let replication::Replication { holder, staleness, .. } = &mut self.replication;
            holder.on_update(core, out, staleness, row)?;
            self.hand_on()?;
        }
        Ok(())
    }

    /// A node reports its intents for keys whose home is here. Begun intents are processed first: a node that
    /// has begun another intent for a key still wants the key.
    pub(super) fn on_intent_report(
        &mut self,
        from: NodeId,
        report: &IntentReport,
    ) -> Result<(), ProtocolError> {
        Home::check(&self.core, report)?;
        for (keys, active) in [(&report.begun, true), (&report.over, false)] {
            for key in keys {
                self.intents.home.hear(&self.core, &mut self.out, from, *key, active)?;
                self.hand_on()?;
            }
        }
        Ok(())
    }

    /// This node wants a replica of `key` and is its home, and homes decide. Sends the request to the owner,
    /// unless the key itself is on its way here.
    pub(super) fn ask_home(&mut self, key: Key, generation: u32, need: u32) {
        let (core, out) = (&self.core, &mut self.out);
        let state = core.state(key);
        if !self.intents.home.comes_to(key, &state, core.node()) {
            holder::ask_owner(core, out, key, &state, generation, need);
        }
    }

    /// Runs a round of intents; then the channel may go to sleep.
    pub(super) fn act(&mut self) -> Result<(), ProtocolError> {
        self.intent_round()?;
        self.intents.doze(&self.core);
        Ok(())
    }

    /// Runs a round of intents: acts on intents that are due, and forgets those that have ended.
    pub(super) fn intent_round(&mut self) -> Result<(), ProtocolError> {
        if !self.intents.find_due(&self.core, &mut self.out) {
            return Ok(());
        }
        let mut each = mem::take(&mut self.intents.found.each);
        for (key, active) in each.drain(..) {
            self.intents.home.report(&self.core, &mut self.out, key, active);
            self.hand_on()?;
        }
        self.intents.found.each = each;
        let mut changed = mem::take(&mut self.intents.found.changed);
        self.out.outgoing.replication.expect(self.core.share(&changed));
        for (at, key) in changed.iter().copied().enumerate() {
            self.core.shared.ahead().slots(&changed, at);
            self.replication.holder.prefetch(&changed, at);
            self.reconsider(key)?;
        }
        changed.clear();
        self.intents.found.changed = changed;
        Ok(())
    }

    /// This node's count of active intents for a key has become nonzero or zero again.
    fn reconsider(&mut self, key: Key) -> Result<(), ProtocolError> {
        let active = self.intents.active(key) > 0;
        let what = if active { What::IntentBegan } else { What::IntentEnded };
        self.out.events.decided(self.core.now, key, what);
        if self.intents.decider() == Some(Decider::Home) {
            // The key may leave.
            self.intents.home.report(&self.core, &mut self.out, key, active);
            self.hand_on()?;
        }
        let (core, out) = (&self.core, &mut self.out);
        let replication::Replication { holder, owner, .. } = &mut self.replication;
        let (mut entry, role) = core.shared.latch(key);
        let state = entry.state();
        match role {
            Role::Owner | Role::Hub => {
                // An intent that begins here changes nothing: the key is here.
                if !active {
                    decide(core, out, &self.intents, owner, &mut entry, Cause::Ended(core.node()));
                }
                drop(entry);
            }
            Role::Absent | Role::Replica => {
                let unused = !active && state == SlotState::default();
                if unused && core.shared.is_lazy() && !holder.holds(key) {
                    entry.remove();
                    return Ok(());
                }
                drop(entry);
                if active {
                    holder.want(core, out, key, &state, 0);
                } else {
                    holder.unwant(core, out, key);
                    // Sends updates now and not in the next round of deltas: until the owner gets the drop
                    // request, it counts this node among those with intent.
                    holder.carry_on(core, out, key, Urge::Updates);
                }
            }
            Role::Arriving | Role::Leaving | Role::Static => {
                unreachable!("{key:?} is {role:?}, which intents never lead to")
            }
        }
        self.hand_on()
    }
}

/// Applies the owner's rule after an intent for the key has begun or ended. Returns whether the key moves.
fn decide<E: Element>(
    core: &Core<E>,
    out: &mut Output,
    intents: &Intents,
    owner: &mut Owner,
    entry: &mut Entry<'_, SlotState, E>,
    cause: Cause,
) -> bool {
    let key = entry.key();
    let hub = if entry.state().role == Role::Hub { owner.hub(key) } else { None };
    let Some(to) = intents.choose(key, hub, cause) else { return false };
    out.events.decided(core.now, key, What::Left { to, cause });
    move_owned(core, out, owner, entry, to);
    true
}

/// Applies the owner's rule when a node asks for a replica of a key of which no other node has one. Most
/// often, the key then moves to that node, and this node needs no record of the registration. Returns whether
/// the key moves.
fn move_to_first<E: Element>(
    core: &Core<E>,
    out: &mut Output,
    intents: &Intents,
    entry: &mut Entry<'_, SlotState, E>,
    request: Request<'_>,
) -> bool {
    let (key, cause) = (entry.key(), Cause::Began(request.holder));
    let mut hub = Hub::default();
    hub.ask(request.holder, request.generation);
    let Some(to) = intents.choose(key, Some(&hub), cause) else { return false };
    out.events.decided(core.now, key, What::Left { to, cause });
    move_with(core, out, entry, to, Some(&hub));
    true
}

/// Hands over a key that is owned here, with the registrations of its replicas.
fn move_owned<E: Element>(
    core: &Core<E>,
    out: &mut Output,
    owner: &mut Owner,
    entry: &mut Entry<'_, SlotState, E>,
    to: NodeId,
) {
    let hub = owner.depart(entry.key());
    move_with(core, out, entry, to, hub.as_ref());
}

/// Hands over a key that is owned here, with the registrations in `hub`.
fn move_with<E: Element>(
    core: &Core<E>,
    out: &mut Output,
    entry: &mut Entry<'_, SlotState, E>,
    to: NodeId,
    hub: Option<&Hub>,
) {
    let state = entry.state_mut();
    let counter = state.counter.wrapping_add(1);
    state.role = Role::Absent;
    state.side = 0;
    state.set_dirty(false);
    core.shared.set_part(entry);
    relocation::hand_over(core, out, entry, to, Departing { counter, hub, decided: &[] });
}
