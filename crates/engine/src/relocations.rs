//! Relocations: what workers want here, what the home orders, and the hand-over. See the tables in
//! [`intendant_techniques::relocation`].

use crate::accesses::Access;
use crate::channel::Channel;
use crate::decisions::DecisionKind;
use crate::shared::Shared;
use bytes::Bytes;
use hashbrown::hash_map::Entry as MapEntry;
use intendant_core::{Element, Key, NodeId, Tick, copy_from_bytes, copy_to_bytes};
use intendant_store::Entry;
use intendant_techniques::relocation::{self, Departure, Localized, Ordered};
use intendant_techniques::replication::{Hub, Stage};
use intendant_techniques::{Initiator, Role, SlotState, access};
use intendant_wire::{HandOver, HolderRow, Localize, Moved, Origin, Relocate};
use std::collections::VecDeque;
use std::sync::Arc;

/// Slots of a sparse store, per channel, that hold nothing but what this node remembers of keys that are elsewhere. The oldest
/// are forgotten; accesses to them go over the home. About 4 MiB.
const REMEMBERED_MAX: usize = 1 << 16;

/// What waits for a key to arrive.
pub(crate) enum Waiting {
    /// An access.
    Access { access: Access, operand: Bytes, since: Tick },
    /// A worker that wants the key here.
    Localize { origin: Origin, position: u32 },
    /// The next owner.
    Departure { to: NodeId, counter: u32 },
}

/// A worker that asked for a key, and when.
#[derive(Clone, Copy)]
struct Asked {
    origin: Origin,
    position: u32,
    at: Tick,
}

/// A key that is on its way here, maybe more than once.
#[derive(Default)]
pub(crate) struct Arrival {
    /// Who asked first. Mostly nothing else waits.
    first: Option<Asked>,
    rest: Option<Box<Rest>>,
}

/// What waits behind the first.
#[derive(Default)]
struct Rest {
    /// In the order in which it is served.
    queue: VecDeque<Waiting>,
    /// When workers asked: one for each arrival to come.
    asked: VecDeque<Tick>,
}

impl Arrival {
    fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    /// What waits behind whoever asked first.
    pub(crate) fn queue(&mut self) -> &mut VecDeque<Waiting> {
        &mut self.rest().queue
    }

    fn asked_again(&mut self, Asked { origin, position, at }: Asked) {
        self.rest().asked.push_back(at);
        self.queue().push_back(Waiting::Localize { origin, position });
    }

    /// When somebody asked for what arrives now. Before anything that waits is taken.
    fn asked_at(&mut self) -> Option<Tick> {
        match self.first {
            Some(Asked { at, .. }) => Some(at),
            None => self.rest.as_mut()?.asked.pop_front(),
        }
    }

    /// Takes what is served next.
    fn next(&mut self) -> Option<Waiting> {
        match self.first.take() {
            Some(Asked { origin, position, .. }) => Some(Waiting::Localize { origin, position }),
            None => self.rest.as_mut()?.queue.pop_front(),
        }
    }

    /// Whether nothing waits, and the key is not expected again.
    fn is_over(&self) -> bool {
        self.first.is_none()
            && self.rest.as_ref().is_none_or(|rest| rest.queue.is_empty() && rest.asked.is_empty())
    }
}

/// Slots of a sparse store that only remember something, oldest first.
#[derive(Default)]
pub(crate) struct Departed {
    keys: VecDeque<Key>,
}

impl<E: Element> Channel<E> {
    fn initiator(&self) -> Option<Initiator> {
        self.shared.policy().relocation
    }

    /// A worker wants keys here.
    pub(crate) fn submit_localize(
        &mut self,
        origin: Origin,
        keys: &[Key],
        positions: &[u32],
        issued: Tick,
    ) -> Result<(), String> {
        let shared = Arc::clone(&self.shared);
        for (at, (key, position)) in keys.iter().zip(positions).enumerate() {
            shared.prefetch_slots(keys, at);
            let (key, position) = (*key, *position);
            let (mut entry, _) = shared.latch(key);
            let mut wanted = relocation::localize(entry.state_mut());
            if self.initiator() != Some(Initiator::Requester) {
                intendant_core::strict_assert!(
                    false,
                    "{key:?} was asked for, but keys do not move on request"
                );
                wanted = Localized::Here;
            }
            match wanted {
                Localized::Here => self.replies.localized(origin, position),
                Localized::Coming => {
                    drop(entry);
                    self.arrival(key).queue().push_back(Waiting::Localize { origin, position });
                }
                Localized::Ask => {
                    let home = shared.directory().home(key);
                    if home == shared.node() {
                        let ordered = relocation::order(entry.state_mut(), home, home);
                        let Some(Ordered { owner, counter }) = ordered else {
                            return Err(format!("this node is home of {key:?} and does not know its owner"));
                        };
                        self.moves.relocate(owner, home, key, counter);
                    } else {
                        self.moves.localize(home, key);
                    }
                    drop(entry);
                    let asked = Asked { origin, position, at: issued };
                    match self.arrivals.entry(key) {
                        MapEntry::Vacant(new) => {
                            new.insert(Arrival { first: Some(asked), rest: None });
                        }
                        MapEntry::Occupied(mut before) => before.get_mut().asked_again(asked),
                    }
                }
            }
        }
        Ok(())
    }

    fn arrival(&mut self, key: Key) -> &mut Arrival {
        self.arrivals.get_mut(&key).expect("a key that arrives has a queue")
    }

    /// A node wants keys whose home is here.
    pub(crate) fn on_localize(&mut self, from: NodeId, localize: &Localize) -> Result<(), String> {
        self.check_mover(Initiator::Requester, "asks for keys")?;
        self.check_keys(&localize.keys)?;
        let shared = Arc::clone(&self.shared);
        self.moves.expect(self.room(&localize.keys));
        for (at, key) in localize.keys.iter().enumerate() {
            shared.prefetch_departure(&localize.keys, at);
            if !shared.directory().is_home(*key) {
                return Err(format!("it asks node {} to move {key:?}, which is not its home", shared.node()));
            }
            let (mut entry, _) = shared.latch(*key);
            match relocation::order(entry.state_mut(), shared.node(), from) {
                None => return Err(format!("it asks for {key:?}, which it has or gets already")),
                Some(Ordered { owner, counter }) if owner == shared.node() => {
                    self.leave(&shared, entry, from, counter)?;
                }
                Some(Ordered { owner, counter }) => self.moves.relocate(owner, from, *key, counter),
            }
        }
        Ok(())
    }

    /// The home tells this node to hand keys over.
    pub(crate) fn on_relocate(&mut self, from: NodeId, relocate: &Relocate) -> Result<(), String> {
        let Relocate { to, keys, counters } = relocate;
        let obeys = self.shared.policy().homes_decide();
        if !obeys {
            self.check_mover(Initiator::Requester, "orders relocations")?;
        }
        self.check_keys(keys)?;
        let shared = Arc::clone(&self.shared);
        if to.index() >= shared.layout().nodes() || *to == shared.node() {
            return Err(format!("it orders node {} to hand keys over to node {to}", shared.node()));
        }
        self.moves.expect(self.room(keys));
        for (at, (key, counter)) in keys.iter().zip(counters).enumerate() {
            shared.prefetch_departure(keys, at);
            if shared.directory().home(*key) != from {
                return Err(format!("it orders the relocation of {key:?}, whose home it is not"));
            }
            let (entry, _) = shared.latch(*key);
            if obeys {
                self.obey(&shared, entry, *to, *counter)?;
            } else {
                self.leave(&shared, entry, *to, *counter)?;
            }
        }
        Ok(())
    }

    /// Hands a key over to `to`, now or after what is queued for it.
    fn leave(
        &mut self,
        shared: &Shared<E>,
        mut entry: Entry<'_, SlotState, E>,
        to: NodeId,
        counter: u32,
    ) -> Result<(), String> {
        let key = entry.key();
        match relocation::leave(entry.state_mut()) {
            Departure::Now => {
                entry.state_mut().role = Role::Absent;
                self.hand_over(shared, &mut entry, to, counter, None);
                drop(entry);
                self.remember(key);
            }
            Departure::Queued => {
                drop(entry);
                self.arrival(key).queue().push_back(Waiting::Departure { to, counter });
            }
            Departure::Impossible => {
                return Err(format!("it orders the relocation of {key:?}, which is not here"));
            }
        }
        Ok(())
    }

    /// The value leaves, and the record of its replicas elsewhere, if there are any. The role is the caller's to set.
    fn hand_over(
        &mut self,
        shared: &Shared<E>,
        entry: &mut Entry<'_, SlotState, E>,
        to: NodeId,
        counter: u32,
        hub: Option<&Hub>,
    ) {
        let key = entry.key();
        let bytes = shared.layout().len(key) * size_of::<E>();
        let value = entry.value().expect("who hands over holds the value");
        self.moves.hand_over(to, key, counter, hub, bytes, |cargo| copy_to_bytes(value, cargo));
        entry.release();
        relocation::depart(entry.state_mut(), to, counter);
    }

    /// Keys arrive.
    pub(crate) fn on_hand_over(&mut self, from: NodeId, hand_over: &HandOver) -> Result<(), String> {
        let HandOver { keys, counters, holders, values } = hand_over;
        self.check_keys(keys)?;
        let expected: usize = keys.iter().map(|key| self.value_bytes(*key)).sum();
        self.check_holders(from, hand_over)?;
        if values.len() != expected {
            return Err(format!("it hands over {} bytes of values instead of {expected}", values.len()));
        }
        let shared = Arc::clone(&self.shared);
        let mut offset = 0;
        let mut holders = holders.iter().peekable();
        for (at, (key, counter)) in keys.iter().zip(counters).enumerate() {
            let end = offset + self.value_bytes(*key);
            shared.prefetch_arrival(keys, at);
            let (mut entry, role) = shared.latch(*key);
            let at_home = shared.directory().is_home(*key);
            let (expected, plausible) = match self.initiator() {
                None => (false, false),
                Some(Initiator::Requester) => (
                    matches!(role, Role::Arriving | Role::Leaving),
                    relocation::is_plausible(&entry.state(), at_home, *counter),
                ),
                // What the home knows is old here: a hand-over is news everywhere.
                Some(Initiator::Owner) => (
                    matches!(role, Role::Absent | Role::Replica),
                    relocation::is_plausible(&entry.state(), false, *counter),
                ),
            };
            if !expected || !plausible {
                let state = entry.state();
                return Err(format!(
                    "it hands over {key:?} with counter {counter}, while it is {state:?} here"
                ));
            }
            let bytes = &values[offset..end];
            offset = end;
            self.stats.relocations += 1;
            if self.initiator() == Some(Initiator::Owner) {
                let rows = std::iter::from_fn(|| holders.next_if(|row| row.at as usize == at));
                self.note(*key, DecisionKind::Arrived(from));
                let queue = self.arrive(&mut entry, bytes, *counter, rows);
                let home = shared.directory().home(*key);
                // A home that handed it over knows.
                if !at_home && home != from {
                    self.moves.moved(home, *key, *counter);
                }
                drop(entry);
                if at_home {
                    self.arrived_at(&shared, *key, *counter);
                }
                self.serve_queue(*key, queue)?;
            } else {
                copy_from_bytes(entry.overwrite(), bytes);
                relocation::arrive(entry.state_mut(), at_home, *counter);
                self.drain(&shared, entry, *counter)?;
            }
        }
        Ok(())
    }

    /// The main copy is here, by its owner's decision. What waited for it, if it was to be replicated here.
    fn arrive<'a>(
        &mut self,
        entry: &mut Entry<'_, SlotState, E>,
        bytes: &[u8],
        counter: u32,
        rows: impl Iterator<Item = &'a HolderRow>,
    ) -> VecDeque<(Access, Bytes)> {
        let key = entry.key();
        let mut version = 0;
        let holders = rows.map(|row| {
            version = row.version;
            (row.node, row.generation, row.seq)
        });
        let holders: Vec<_> = holders.collect();
        let (hub, own) = Hub::arrived(self.shared.node(), version, holders);
        relocation::arrive(entry.state_mut(), false, counter);
        let queue = match self.holding.held.get(&key).map(|held| held.replica.stage()) {
            None => {
                copy_from_bytes(entry.overwrite(), bytes);
                VecDeque::new()
            }
            Some(stage) => {
                if matches!(stage, Stage::Asking | Stage::Reviving) {
                    self.intents.answered(self.now, self.holding.held[&key].since);
                }
                let mut main = vec![E::ZERO; self.shared.layout().len(key)];
                copy_from_bytes(&mut main, bytes);
                let updated = entry.state().is_dirty();
                let copy = if stage == Stage::Asking {
                    entry.allocate()
                } else {
                    self.stats.replica_drops += 1;
                    entry.value_mut().expect("a replica has a value")
                };
                let held = self.forget_replica(key).expect("looked up above");
                held.replica.promote(own, &main, copy, updated);
                held.queue
            }
        };
        entry.state_mut().set_closed(false);
        self.take_hub(entry, hub);
        queue
    }

    /// Serves what waited for a key that has arrived, up to the first departure. The latch is held all the while, so that no
    /// worker comes in between.
    fn drain(
        &mut self,
        shared: &Shared<E>,
        mut entry: Entry<'_, SlotState, E>,
        counter: u32,
    ) -> Result<(), String> {
        let key = entry.key();
        let Some(mut arrival) = self.arrivals.remove(&key) else {
            return Err(format!("it hands over {key:?}, which nobody asked for"));
        };
        if let Some(asked) = arrival.asked_at() {
            self.stats.relocation.record(self.now.0.saturating_sub(asked.0));
        }
        let counter = shared.policy().caches.then_some(counter);
        loop {
            match arrival.next() {
                Some(Waiting::Access { access, operand, since }) => {
                    let Access { origin, kind, hops, position, .. } = access;
                    let value = entry.value_mut().expect("the value has arrived");
                    self.replies.served(origin, kind, position, counter, |read| {
                        access::apply(kind, value, &operand, read);
                    });
                    if origin.node != shared.node() {
                        self.stats.served(hops);
                    }
                    self.stats.blocking.record(self.now.0.saturating_sub(since.0));
                }
                Some(Waiting::Localize { origin, position }) => self.replies.localized(origin, position),
                Some(Waiting::Departure { to, counter }) => {
                    self.hand_over(shared, &mut entry, to, counter, None);
                    if arrival.is_over() {
                        entry.state_mut().role = Role::Absent;
                        drop(entry);
                        self.remember(key);
                    } else {
                        // It is expected back.
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

    /// Whoever decides about the keys of this node wants them moved.
    pub(crate) fn on_order(&mut self, keys: &[Key], to: NodeId) -> Result<(), String> {
        self.check_mover(Initiator::Owner, "moves keys as it likes")?;
        self.check_keys(keys)?;
        let shared = Arc::clone(&self.shared);
        if to.index() >= shared.layout().nodes() {
            return Err(format!("keys shall move to node {to}, which does not exist"));
        }
        for key in keys {
            let (mut entry, role) = shared.latch(*key);
            if role.is_owner() && to != shared.node() {
                self.move_to(&shared, &mut entry, to);
            }
        }
        Ok(())
    }

    /// Hands a key over that is owned here, with all that is known of its replicas.
    pub(crate) fn move_to(&mut self, shared: &Shared<E>, entry: &mut Entry<'_, SlotState, E>, to: NodeId) {
        let counter = entry.state().counter.wrapping_add(1);
        entry.state_mut().role = Role::Absent;
        entry.state_mut().set_dirty(false);
        let hub = self.hand_over_hub(entry.key());
        self.hand_over(shared, entry, to, counter, hub.as_ref());
    }

    /// A node tells the home of keys that it has them.
    pub(crate) fn on_moved(&mut self, from: NodeId, moved: &Moved) -> Result<(), String> {
        self.check_mover(Initiator::Owner, "tells where keys are")?;
        self.check_keys(&moved.keys)?;
        let shared = Arc::clone(&self.shared);
        for (key, counter) in moved.keys.iter().zip(&moved.counters) {
            if !shared.directory().is_home(*key) {
                return Err(format!("it tells where {key:?} is, to a node that is not its home"));
            }
            shared.latch(*key).0.state_mut().learn(from, *counter);
            self.arrived_at(&shared, *key, *counter);
        }
        Ok(())
    }

    /// Remembers where a key was seen.
    pub(crate) fn learn(&mut self, key: Key, at: NodeId, counter: u32) {
        if self.shared.learn(key, at, counter) {
            self.remember(key);
        }
    }

    /// Notes that the slot of a key only remembers something from now on. Forgets the oldest such slot of a sparse store if there
    /// are many.
    pub(crate) fn remember(&mut self, key: Key) {
        // Where owners move keys, what an old owner remembers is needed until the home knows.
        if !self.shared.is_lazy()
            || self.initiator() == Some(Initiator::Owner)
            || self.shared.directory().is_home(key)
        {
            return;
        }
        let store = self.shared.store();
        {
            // Once per key, however often it comes and goes.
            let mut entry = store.latch(key);
            if entry.state().is_listed() {
                return;
            }
            entry.state_mut().set_listed(true);
        }
        self.departed.keys.push_back(key);
        if self.departed.keys.len() > REMEMBERED_MAX
            && let Some(oldest) = self.departed.keys.pop_front()
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
