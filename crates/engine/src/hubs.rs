//! Replicas that others hold of keys owned here: registering, merging, telling. See the table in
//! [`intendant_techniques::replication`].

use crate::channel::{Channel, Hash};
use crate::copies::{Item, Way};
use crate::decisions::{Cause, DecisionKind};
use crate::key_set::KeySet;
use crate::shared::Shared;
use hashbrown::HashMap;
use intendant_core::{Element, Key, NodeId, add_bytes};
use intendant_store::Entry;
use intendant_techniques::replication::{AskOutcome, Hub, Merge};
use intendant_techniques::{NextHop, Replicas, Role, SlotState};
use intendant_wire::{ReplicaRequest, ReplicaRequestKind, ReplicaUpdateKind};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A channel's keys that are owned here and replicated elsewhere.
#[derive(Default)]
pub(crate) struct Hubs {
    pub(crate) hubs: HashMap<Key, Hub, Hash>,
    /// Keys of which holders may lack something that they are told in the next round.
    pub(crate) unsent: KeySet,
    /// Holders whose accesses are being served: they are told before they are answered.
    pub(crate) owed: BTreeSet<(Key, NodeId)>,
    /// By node, how many replicas it holds.
    pub(crate) holders: Vec<usize>,
    /// Who is to be told about a key, for as long as that takes.
    behind: Vec<NodeId>,
}

impl<E: Element> Channel<E> {
    /// The record of a key that is owned here and replicated elsewhere. For invariant checks.
    pub fn hub(&self, key: Key) -> Option<&Hub> {
        self.hubs.hubs.get(&key)
    }

    /// Keys that are owned here and replicated elsewhere.
    pub fn hub_count(&self) -> usize {
        self.hubs.hubs.len()
    }

    /// The main copy of `key` has changed, other than by a holder's delta.
    pub(crate) fn changed(&mut self, key: Key) {
        if let Some(hub) = self.hubs.hubs.get_mut(&key) {
            hub.touch();
            self.tell_later(key);
        }
    }

    /// Holders of `key` lack something. Under lazy replication they ask.
    fn tell_later(&mut self, key: Key) {
        if self.shared.policy().replicas != Some(Replicas::Lazy) {
            self.hubs.unsent.insert(key);
        }
    }

    /// Takes notice of what workers here have added to a key.
    fn settle_hub(&mut self, entry: &mut Entry<'_, SlotState, E>) {
        if entry.state().is_dirty() {
            entry.state_mut().set_dirty(false);
            self.changed(entry.key());
        }
    }

    /// An access to a key with replicas elsewhere has been served for `origin`.
    pub(crate) fn after_access(&mut self, entry: &mut Entry<'_, SlotState, E>, writes: bool, origin: NodeId) {
        let key = entry.key();
        self.settle_hub(entry);
        if writes {
            self.changed(key);
        }
        if self.hubs.hubs.get(&key).is_some_and(|hub| hub.owes(origin)) {
            self.hubs.owed.insert((key, origin));
        }
    }

    /// A holder wants something of the owners of keys.
    pub(crate) fn on_sync(&mut self, from: NodeId, sync: &ReplicaRequest) -> Result<(), String> {
        self.check_sync(from, sync)?;
        let shared = Arc::clone(&self.shared);
        let ReplicaRequest { kind, holder, hops, keys, generations, numbers, values } = sync;
        let mut offset = 0;
        for (at, key) in keys.iter().enumerate() {
            let start = offset;
            if *kind == ReplicaRequestKind::Delta {
                offset += self.value_bytes(*key);
            }
            let delta = &values[start..offset];
            let (generation, number) = (generations[at], numbers.get(at).copied().unwrap_or(0));
            shared.prefetch(keys, at);
            let (mut entry, role) = shared.latch(*key);
            if !role.is_owner() {
                let state = entry.state();
                drop(entry);
                if !matches!(role, Role::Absent | Role::Replica) {
                    return Err(format!("it sends a {kind:?} for {key:?}, which is {role:?} here"));
                }
                if *hops >= shared.directory().hops_max() {
                    return Err(format!("its {kind:?} for {key:?} was forwarded {hops} times"));
                }
                // What it asked for is on its way to it.
                let home = shared.policy().homes_decide() && shared.directory().is_home(*key);
                if home && *kind == ReplicaRequestKind::Ask && self.comes_to(*key, &state, *holder) {
                    continue;
                }
                let NextHop::To(to) = shared.directory().next_hop(*key, &state) else {
                    return Err(format!("this node is home of {key:?} and does not know its owner"));
                };
                let way = Way { to, holder: *holder, kind: *kind, hops: hops + 1 };
                let value_bytes = self.value_bytes(*key);
                self.copies.sync(way, *key, generation, number, value_bytes, |values| {
                    values.extend_from_slice(delta);
                });
                continue;
            }
            if *holder == shared.node() {
                // A ghost: the key has come to the holder meanwhile.
                continue;
            }
            match kind {
                ReplicaRequestKind::Ask => self.register(&shared, &mut entry, *holder, generation, number)?,
                ReplicaRequestKind::Delta => self.merge(&mut entry, *holder, generation, number, delta)?,
                ReplicaRequestKind::Drop => self.release_holder(&shared, &mut entry, *holder, generation),
            }
        }
        Ok(())
    }

    fn register(
        &mut self,
        shared: &Shared<E>,
        entry: &mut Entry<'_, SlotState, E>,
        holder: NodeId,
        generation: u32,
        need: u32,
    ) -> Result<(), String> {
        let key = entry.key();
        self.settle_hub(entry);
        let hub = self.hubs.hubs.entry(key).or_default();
        let before = hub.holders().len();
        let asked = hub.ask(holder, generation);
        let more = hub.holders().len() - before;
        entry.state_mut().role = Role::Hub;
        self.count_holder(holder, more, 0);
        if asked == AskOutcome::New {
            if self.decide(shared, entry, Cause::Began(holder)) {
                return Ok(());
            }
            self.note(key, DecisionKind::Registered(holder));
        }
        let early = need > self.staleness.global();
        match asked {
            AskOutcome::New => self.tell(entry, holder, ReplicaUpdateKind::SetUp),
            AskOutcome::Again if !early => self.tell(entry, holder, ReplicaUpdateKind::Refresh),
            AskOutcome::Again => {}
            AskOutcome::Stale => return Ok(()),
        }
        if early && self.shared.policy().replicas == Some(Replicas::Lazy) {
            self.staleness.owe(need, key, holder)?;
        }
        Ok(())
    }

    fn count_holder(&mut self, holder: NodeId, more: usize, less: usize) {
        let nodes = self.shared.layout().nodes();
        self.hubs.holders.resize(nodes, 0);
        let count = &mut self.hubs.holders[holder.index()];
        *count = (*count + more).saturating_sub(less);
    }

    fn merge(
        &mut self,
        entry: &mut Entry<'_, SlotState, E>,
        holder: NodeId,
        generation: u32,
        seq: u32,
        delta: &[u8],
    ) -> Result<(), String> {
        let key = entry.key();
        self.settle_hub(entry);
        let Some(hub) = self.hubs.hubs.get_mut(&key) else { return Ok(()) };
        let merge = hub.merge(holder, generation, seq);
        match merge {
            Merge::Ghost => return Ok(()),
            Merge::Impossible => {
                return Err(format!("it sends delta {seq} of {key:?}, and those before are missing"));
            }
            Merge::Acknowledge | Merge::Refresh => {}
        }
        add_bytes(entry.value_mut().expect("an owner holds the value"), delta);
        self.stats.synced_keys += 1;
        let kind = if merge == Merge::Acknowledge {
            ReplicaUpdateKind::Acknowledged
        } else {
            ReplicaUpdateKind::Refresh
        };
        self.tell(entry, holder, kind);
        if self.hubs.hubs.get(&key).is_some_and(|hub| hub.behind().next().is_some()) {
            self.tell_later(key);
        }
        Ok(())
    }

    fn release_holder(
        &mut self,
        shared: &Shared<E>,
        entry: &mut Entry<'_, SlotState, E>,
        holder: NodeId,
        generation: u32,
    ) {
        let key = entry.key();
        self.settle_hub(entry);
        let mut left = false;
        if let Some(hub) = self.hubs.hubs.get_mut(&key)
            && hub.leave(holder, generation)
        {
            left = true;
            let alone = hub.holders().is_empty();
            self.count_holder(holder, 0, 1);
            self.staleness.disown(key, holder);
            if alone {
                self.forget_hub(key);
                entry.state_mut().role = Role::Owner;
                entry.state_mut().set_dirty(false);
            }
        }
        let counter = self.shared.policy().caches.then_some(entry.state().counter);
        let item = Item { key, generation, seq: 0, version: 0, counter };
        self.copies.news::<E>(holder, ReplicaUpdateKind::Dropped, self.staleness.global(), item, &[]);
        if left {
            self.note(key, DecisionKind::Released(holder));
            self.decide(shared, entry, Cause::Ended(holder));
        }
    }

    fn forget_hub(&mut self, key: Key) -> Option<Hub> {
        self.hubs.unsent.remove(key);
        self.hubs.hubs.remove(&key)
    }

    /// The key leaves: its record, to go with it.
    pub(crate) fn hand_over_hub(&mut self, key: Key) -> Option<Hub> {
        let hub = self.forget_hub(key)?;
        hub.holders().iter().for_each(|holder| self.count_holder(holder.node, 0, 1));
        Some(hub)
    }

    /// The key has come, with holders elsewhere if there are any. What these have been told is not known here: they are told.
    pub(crate) fn take_hub(&mut self, entry: &mut Entry<'_, SlotState, E>, hub: Hub) {
        let key = entry.key();
        entry.state_mut().set_dirty(false);
        if hub.holders().is_empty() {
            entry.state_mut().role = Role::Owner;
            return;
        }
        entry.state_mut().role = Role::Hub;
        hub.holders().iter().for_each(|holder| self.count_holder(holder.node, 1, 0));
        self.hubs.hubs.insert(key, hub);
        self.tell_later(key);
    }

    /// Tells a holder the value, or that its delta was merged.
    fn tell(&mut self, entry: &mut Entry<'_, SlotState, E>, to: NodeId, kind: ReplicaUpdateKind) {
        let key = entry.key();
        let counter = self.shared.policy().caches.then_some(entry.state().counter);
        let Some(hub) = self.hubs.hubs.get_mut(&key) else { return };
        let Some(holder) = hub.tell(to) else { return };
        let item =
            Item { key, generation: holder.generation, seq: holder.seq, version: hub.version(), counter };
        let value = match kind {
            ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh => {
                entry.value().expect("an owner holds the value")
            }
            ReplicaUpdateKind::Acknowledged | ReplicaUpdateKind::Dropped => &[],
        };
        self.stats.synced_keys += u64::from(!value.is_empty());
        self.copies.news(to, kind, self.staleness.global(), item, value);
    }

    /// Tells `to` the value of `key`, if it holds a replica that lacks something.
    pub(crate) fn tell_if_owed(&mut self, shared: &Shared<E>, key: Key, to: NodeId) {
        let (mut entry, role) = shared.latch(key);
        if role == Role::Hub {
            self.settle_hub(&mut entry);
            if self.hubs.hubs.get(&key).is_some_and(|hub| hub.owes(to)) {
                self.tell(&mut entry, to, ReplicaUpdateKind::Refresh);
            }
        }
    }

    /// Tells `to` the value of `key` and how new it is, if it still holds a replica.
    pub(crate) fn refresh(&mut self, shared: &Shared<E>, key: Key, to: NodeId) {
        let (mut entry, role) = shared.latch(key);
        if role == Role::Hub {
            self.settle_hub(&mut entry);
            self.tell(&mut entry, to, ReplicaUpdateKind::Refresh);
        }
    }

    /// Tells those whose accesses were served.
    pub(crate) fn tell_owed(&mut self) {
        if self.hubs.owed.is_empty() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        while let Some((key, to)) = self.hubs.owed.pop_first() {
            self.tell_if_owed(&shared, key, to);
        }
    }

    /// Tells all holders what they lack.
    pub(crate) fn tell_all(&mut self) {
        let shared = Arc::clone(&self.shared);
        let keys = self.hubs.unsent.take();
        for (at, key) in keys.iter().copied().enumerate() {
            shared.prefetch(&keys, at);
            let (mut entry, role) = shared.latch(key);
            if role != Role::Hub {
                continue;
            }
            self.settle_hub(&mut entry);
            self.hubs.unsent.remove(key);
            let mut behind = std::mem::take(&mut self.hubs.behind);
            behind.extend(self.hubs.hubs.get(&key).into_iter().flat_map(Hub::behind));
            for to in behind.drain(..) {
                self.tell(&mut entry, to, ReplicaUpdateKind::Refresh);
            }
            self.hubs.behind = behind;
        }
    }
}
