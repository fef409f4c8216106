//! Relocation: localize requests of workers, orders of homes, and the hand-over. See the tables in
//! [`intendant_techniques::relocation`].
//!
//! [`Relocation`] owns the keys that are arriving, with what waits for them, and, unless requests follow
//! keys, the bounded list of slots that hold only a location. It has no knowledge of replicas: the channel
//! supplies the registrations that a hand-over carries.

mod arrival;

use crate::channel::core::{Core, Hash};
use crate::channel::effects::{Access, Output};
use crate::error::ProtocolError;
use crate::outgoing::relocation::Departing;
use arrival::{Arrival, LocalizeRequest, Waiting};
use bytes::Bytes;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry as MapEntry;
use intendant_core::{Element, Key, NodeId, Tick, copy_from_bytes, copy_to_bytes};
use intendant_store::Entry;
use intendant_techniques::relocation::{self, Departure, Localized, Ordered};
use intendant_techniques::{Initiator, Location, Role, SlotState};
use intendant_trace::{Cause, What};
use intendant_wire::{Localize, Moved, Origin, Relocate};
use std::collections::VecDeque;

/// How many slots of a sparse store, per channel, may hold nothing but the location of a key that is
/// elsewhere. The channel forgets the oldest ones; accesses to these keys are routed via their homes. Each
/// takes about 64 bytes (a slot in an allocation of its own, an entry in the map of its shard, one in the
/// list), so all together take about 4 MiB. If requests follow keys (`Directory::follows`), such slots
/// are not bounded: see [`Relocation::remember`].
const REMEMBERED_MAX: usize = 1 << 16;

/// The keys of a channel that are arriving, and the slots that hold only a location.
#[derive(Default)]
pub(crate) struct Relocation {
    /// Arriving keys, with what waits for them.
    arrivals: HashMap<Key, Arrival, Hash>,
    /// Slots of a sparse store that hold only a location, oldest first; empty if requests follow keys.
    remembered: VecDeque<Key>,
}

impl Relocation {
    /// Number of arriving keys.
    pub(crate) fn arriving(&self) -> usize {
        self.arrivals.len()
    }

    fn arrival(&mut self, key: Key) -> &mut Arrival {
        self.arrivals.get_mut(&key).expect("an arriving key has a queue")
    }

    /// Queues an access to an arriving key.
    pub(crate) fn queue_access<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        key: Key,
        access: Access,
        operand: Bytes,
    ) {
        self.arrival(key).queue(Waiting::Access { access, operand, since: core.now });
        out.stats.queued += 1;
    }

    /// A worker relocates keys to this node.
    pub(crate) fn submit_localize<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        origin: Origin,
        keys: &[Key],
        positions: &[u32],
        issued: Tick,
    ) {
        assert_eq!(
            core.policy().relocation,
            Some(Initiator::Requester),
            "workers localize keys only if the technique relocates on request"
        );
        let shared = &core.shared;
        for (at, (key, position)) in keys.iter().copied().zip(positions.iter().copied()).enumerate() {
            shared.ahead().slots(keys, at);
            let (mut entry, _) = shared.latch(key);
            match relocation::localize(entry.state_mut()) {
                Localized::Here => out.outgoing.replies.localized(origin, position),
                Localized::Coming => {
                    drop(entry);
                    self.arrival(key).queue(Waiting::Localize { origin, position });
                }
                Localized::Ask => {
                    let (home, state) = (shared.directory().home(key), entry.state());
                    if core.policy().location == Location::BroadcastOperations {
                        out.outgoing.location.want(key);
                    } else if core.policy().location == Location::BroadcastRelocations {
                        let owner = core.first_hop(key, &state);
                        out.outgoing.relocation.localize(owner, shared.node(), 0, key);
                    } else if home == shared.node() {
                        let ordered = relocation::order(entry.state_mut(), home, home);
                        let Ordered { owner, counter } =
                            ordered.expect("a home knows the owner of a key that is not here");
                        out.outgoing.relocation.relocate(owner, home, key, counter);
                    } else {
                        out.outgoing.relocation.localize(home, shared.node(), 0, key);
                    }
                    drop(entry);
                    out.events.note(core.now, key, What::Asked);
                    let request = LocalizeRequest { origin, position, at: issued };
                    match self.arrivals.entry(key) {
                        MapEntry::Vacant(new) => {
                            new.insert(Arrival::new(request));
                        }
                        MapEntry::Occupied(mut before) => before.get_mut().ask_again(request),
                    }
                }
            }
        }
    }

    /// A node asks for keys whose home is here, which orders their relocation. The caller has checked that
    /// the keys exist.
    ///
    /// # Errors
    /// If the node may not ask for them.
    pub(crate) fn on_localize<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        from: NodeId,
        localize: &Localize,
    ) -> Result<(), ProtocolError> {
        let shared = &core.shared;
        for (at, key) in localize.keys.iter().copied().enumerate() {
            shared.ahead().departures(&localize.keys, at);
            core.check_home(key, "sends a localize request for")?;
            let (mut entry, _) = shared.latch(key);
            match relocation::order(entry.state_mut(), shared.node(), from) {
                None => return Err(ProtocolError::AsksForOwnKey(key)),
                Some(Ordered { owner, counter }) if owner == shared.node() => {
                    self.leave(core, out, entry, from, counter)?;
                }
                Some(Ordered { owner, counter }) => {
                    out.outgoing.relocation.relocate(owner, from, key, counter);
                }
            }
        }
        Ok(())
    }

    /// A node asks for keys that, as far as it knew, are owned here. Hands over those that are, and forwards
    /// the request for the others towards their owners.
    ///
    /// # Errors
    /// If the message goes in circles, or asks for a key that the node has.
    pub(crate) fn on_localize_of_owner<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        localize: &Localize,
    ) -> Result<(), ProtocolError> {
        let Localize { requester, hops, keys } = localize;
        for (at, key) in keys.iter().copied().enumerate() {
            core.shared.ahead().departures(keys, at);
            let (entry, role) = core.shared.latch(key);
            if role == Role::Owner {
                self.give(core, out, entry, *requester, &[]);
                continue;
            }
            if role == Role::Static {
                return Err(ProtocolError::AsksForOwnKey(key));
            }
            if *hops >= core.shared.directory().hops_max() {
                return Err(ProtocolError::TooManyHops { what: "localize".into(), key, hops: *hops });
            }
            let to = core.next_hop(key, &entry.state());
            if to == *requester {
                return Err(ProtocolError::AsksForOwnKey(key));
            }
            out.outgoing.relocation.localize(to, *requester, hops + 1, key);
        }
        Ok(())
    }

    /// Hands a key that is owned here over to `to`, which asked for it. `decided` says, per node, how many of
    /// its broadcasts the key has been through.
    pub(crate) fn give<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        mut entry: Entry<'_, SlotState, E>,
        to: NodeId,
        decided: &[u32],
    ) {
        let (key, counter) = (entry.key(), entry.state().counter.wrapping_add(1));
        entry.state_mut().role = Role::Absent;
        out.events.note(core.now, key, What::Left { to, cause: Cause::Asked });
        hand_over(core, out, &mut entry, to, Departing { counter, hub: None, decided });
        drop(entry);
        self.remember(core, key);
    }

    /// The home of keys orders this node to hand them over.
    ///
    /// # Errors
    /// If it may not give the order.
    pub(crate) fn on_relocate<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        from: NodeId,
        relocate: &Relocate,
    ) -> Result<(), ProtocolError> {
        check_initiator(core, Initiator::Requester, "orders relocations")?;
        if !core.policy().location.has_homes() {
            return Err(core.not_in_technique("orders relocations"));
        }
        check_order(core, relocate)?;
        let Relocate { to, keys, counters } = relocate;
        out.outgoing.relocation.expect(core.room(keys));
        for (at, (key, counter)) in keys.iter().copied().zip(counters.iter().copied()).enumerate() {
            core.shared.ahead().departures(keys, at);
            check_ordered_by_home(core, from, key)?;
            let (entry, _) = core.shared.latch(key);
            self.leave(core, out, entry, *to, counter)?;
        }
        Ok(())
    }

    /// Hands a key over to `to`, now or after everything that is queued for it.
    fn leave<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        mut entry: Entry<'_, SlotState, E>,
        to: NodeId,
        counter: u32,
    ) -> Result<(), ProtocolError> {
        let key = entry.key();
        match relocation::leave(entry.state_mut()) {
            Departure::Now => {
                entry.state_mut().role = Role::Absent;
                out.events.note(core.now, key, What::Left { to, cause: Cause::Asked });
                hand_over(core, out, &mut entry, to, Departing { counter, hub: None, decided: &[] });
                drop(entry);
                self.remember(core, key);
            }
            Departure::Queued => {
                drop(entry);
                self.arrival(key).queue(Waiting::Departure { to, counter });
            }
            Departure::Impossible => {
                return Err(ProtocolError::OrderedAbsent { key, counter, state: entry.state() });
            }
        }
        Ok(())
    }

    /// The value of a key that this node asked for has arrived. Serves what waits for it, up to the first
    /// departure. The latch is held throughout, so that no access of a worker comes in between.
    ///
    /// # Errors
    /// If no worker of this node asked for the key.
    pub(crate) fn arrive<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        from: NodeId,
        mut entry: Entry<'_, SlotState, E>,
        value: &[u8],
        counter: u32,
    ) -> Result<(), ProtocolError> {
        let key = entry.key();
        copy_from_bytes(entry.overwrite(), value);
        relocation::arrive(entry.state_mut(), core.shared.directory().orders(key), counter);
        let Some(mut arrival) = self.arrivals.remove(&key) else {
            return Err(ProtocolError::UnexpectedHandOver { key, counter, state: entry.state() });
        };
        let after = arrival.asked_at().map(|asked| core.now.0.saturating_sub(asked.0));
        if let Some(after) = after {
            out.stats.relocation.record(after);
        }
        out.events.note(core.now, key, What::Arrived { from, after: after.unwrap_or(0) });
        let told = core.policy().caches().then_some(counter);
        loop {
            match arrival.next() {
                Some(Waiting::Access { access, operand, since }) => {
                    out.serve(core, told, &mut entry, &access, &operand);
                    out.stats.blocking.record(core.now.0.saturating_sub(since.0));
                }
                Some(Waiting::Localize { origin, position }) => {
                    out.outgoing.replies.localized(origin, position);
                }
                Some(Waiting::Departure { to, counter }) => {
                    out.events.note(core.now, key, What::Left { to, cause: Cause::Asked });
                    hand_over(core, out, &mut entry, to, Departing { counter, hub: None, decided: &[] });
                    if arrival.is_over() {
                        entry.state_mut().role = Role::Absent;
                        drop(entry);
                        self.remember(core, key);
                    } else {
                        // Workers have asked for the key again: it will arrive once more.
                        self.arrivals.insert(key, arrival);
                    }
                    return Ok(());
                }
                None => {
                    entry.state_mut().role = Role::Owner;
                    return Ok(());
                }
            }
        }
    }

    /// Remembers that `key` was at node `at`, if nodes remember locations.
    pub(crate) fn learn<E: Element>(&mut self, core: &Core<E>, key: Key, at: NodeId, counter: u32) {
        if core.shared.learn(key, at, counter) {
            self.remember(core, key);
        }
    }

    /// Notes that the slot of `key` holds only a location from now on. Forgets the oldest such slot of a
    /// sparse store if there are too many. Does nothing if requests follow keys.
    pub(crate) fn remember<E: Element>(&mut self, core: &Core<E>, key: Key) {
        // If requests follow keys, they need the location that an old owner remembers until the home knows
        // the new owner.
        if !core.shared.is_lazy() || core.shared.directory().follows() || core.shared.directory().is_home(key)
        {
            return;
        }
        let store = core.shared.store();
        {
            // A key is listed once, however often it arrives and leaves.
            let mut entry = store.latch(key);
            if entry.state().is_listed() {
                return;
            }
            entry.state_mut().set_listed(true);
        }
        self.remembered.push_back(key);
        if self.remembered.len() > REMEMBERED_MAX
            && let Some(oldest) = self.remembered.pop_front()
        {
            let mut entry = store.latch(oldest);
            if entry.state().role == Role::Absent {
                entry.remove();
            } else {
                entry.state_mut().set_listed(false);
            }
        }
    }
}

/// Sends the value to `to`, with the registrations of its replicas, if there are any. The caller sets the
/// role.
pub(crate) fn hand_over<E: Element>(
    core: &Core<E>,
    out: &mut Output,
    entry: &mut Entry<'_, SlotState, E>,
    to: NodeId,
    departing: Departing<'_>,
) {
    let key = entry.key();
    // No reader finds the value here after another node may have changed it.
    core.shared.withdraw(entry);
    let value = entry.value().expect("the owner that hands over holds the value");
    let bytes = core.value_bytes(key);
    out.outgoing.relocation.hand_over(to, key, departing, bytes, |cargo| copy_to_bytes(value, cargo));
    entry.release();
    relocation::depart(entry.state_mut(), to, departing.counter);
}

/// Checks that a hand-over of the key may arrive now, with this counter.
///
/// # Errors
/// If this node does not expect the key, or knows a newer owner.
pub(crate) fn check_arrival<E: Element>(
    core: &Core<E>,
    key: Key,
    state: SlotState,
    counter: u32,
) -> Result<(), ProtocolError> {
    let role = state.role;
    let (expected, plausible) = match core.policy().relocation {
        None => (false, false),
        Some(Initiator::Requester) => (
            matches!(role, Role::Arriving | Role::Leaving),
            relocation::is_plausible(&state, core.shared.directory().orders(key), counter),
        ),
        // The home may know less than the new owner, which reports to it after the hand-over.
        Some(Initiator::Owner) => {
            (matches!(role, Role::Absent | Role::Replica), relocation::is_plausible(&state, false, counter))
        }
    };
    if expected && plausible {
        return Ok(());
    }
    Err(ProtocolError::UnexpectedHandOver { key, counter, state })
}

/// A node reports to the home of keys, or to all nodes, that it owns them now.
///
/// # Errors
/// If keys do not move in this way, or if only the keys' home may get the report, and this node is not their
/// home.
pub(crate) fn on_moved<E: Element>(core: &Core<E>, from: NodeId, moved: &Moved) -> Result<(), ProtocolError> {
    let to_all = core.policy().location == Location::BroadcastRelocations;
    if !to_all {
        check_initiator(core, Initiator::Owner, "reports where keys are")?;
    }
    core.check_keys(&moved.keys)?;
    let keys = moved.keys.iter().copied();
    for (at, (key, counter)) in keys.zip(moved.counters.iter().copied()).enumerate() {
        core.shared.ahead().slots(&moved.keys, at);
        if !to_all {
            core.check_home(key, "reports the place of")?;
        }
        core.shared.latch(key).0.state_mut().learn(from, counter);
    }
    Ok(())
}

/// Checks that the technique relocates keys, and that `initiator` starts relocations.
///
/// # Errors
/// If the technique does otherwise.
pub(crate) fn check_initiator<E: Element>(
    core: &Core<E>,
    initiator: Initiator,
    what: &'static str,
) -> Result<(), ProtocolError> {
    if core.policy().relocation == Some(initiator) { Ok(()) } else { Err(core.not_in_technique(what)) }
}

/// Checks keys and target of an order to hand keys over.
///
/// # Errors
/// If they are impossible.
pub(crate) fn check_order<E: Element>(core: &Core<E>, relocate: &Relocate) -> Result<(), ProtocolError> {
    core.check_keys(&relocate.keys)?;
    if relocate.to.index() >= core.shared.layout().nodes() || relocate.to == core.node() {
        return Err(ProtocolError::HandOverTarget { here: core.node(), to: relocate.to });
    }
    Ok(())
}

/// Checks that the peer which orders the relocation of `key` is the key's home.
///
/// # Errors
/// If it is not.
pub(crate) fn check_ordered_by_home<E: Element>(
    core: &Core<E>,
    from: NodeId,
    key: Key,
) -> Result<(), ProtocolError> {
    if core.shared.directory().home(key) == from {
        return Ok(());
    }
    Err(ProtocolError::OrderedByStranger(key))
}
