//! Replicas that this node holds: asking, deltas, news, giving up. See the table in [`intendant_techniques::replication`].

use crate::accesses::Access;
use crate::channel::Channel;
use crate::copies::Way;
use crate::decisions::DecisionKind;
use crate::holding::Held;
use crate::shared::Shared;
use bytes::Bytes;
use intendant_core::{Element, Key, NodeId, copy_from_bytes, copy_to_bytes};
use intendant_store::Entry;
use intendant_techniques::replication::{Dropped, Replica, Stage};
use intendant_techniques::{NextHop, Replicas, Role, SlotState};
use intendant_wire::{ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

impl<E: Element> Channel<E> {
    fn replicas(&self) -> Option<Replicas> {
        self.shared.policy().replicas
    }

    /// Replicas here that are not settled: the owner does not know of them yet, or a delta or a drop is under way.
    pub(crate) fn unsettled(&self) -> usize {
        let held = &self.holding.held;
        #[expect(clippy::disallowed_methods, reason = "counting does not depend on the order")]
        let unsettled =
            held.values().filter(|h| h.replica.stage() != Stage::Held || h.replica.is_sending()).count();
        // Under lazy replication a settled node holds none.
        if self.replicas() == Some(Replicas::Lazy) { held.len() } else { unsettled }
    }

    /// Where a holder's message about `key` goes: to the owner, as far as this node knows.
    fn way_to_owner(
        shared: &Shared<E>,
        key: Key,
        state: &SlotState,
        kind: ReplicaRequestKind,
    ) -> Result<Way, String> {
        let NextHop::To(to) = shared.directory().first_hop(key, state) else {
            return Err(format!("this node is home of {key:?} and does not know its owner"));
        };
        Ok(Way { to, holder: shared.node(), kind, hops: 0 })
    }

    /// Sends an *ask* or a *drop*.
    fn tell_owner(
        &mut self,
        key: Key,
        state: &SlotState,
        kind: ReplicaRequestKind,
        generation: u32,
        number: u32,
    ) -> Result<(), String> {
        let mut way = Self::way_to_owner(&self.shared, key, state, kind)?;
        if kind == ReplicaRequestKind::Ask && self.shared.policy().homes_decide() {
            let home = self.shared.directory().home(key);
            if home != self.shared.node() {
                way.to = home;
            } else if self.comes_to(key, state, home) {
                return Ok(());
            }
        }
        self.copies.sync(way, key, generation, number, self.value_bytes(key), |_| ());
        Ok(())
    }

    /// Whoever decides for this node wants replicas of `keys`.
    pub(crate) fn on_replicate(&mut self, keys: &[Key]) -> Result<(), String> {
        self.check_directed()?;
        self.check_keys(keys)?;
        let shared = Arc::clone(&self.shared);
        for key in keys {
            let (entry, role) = shared.latch(*key);
            let state = entry.state();
            drop(entry);
            match role {
                Role::Absent | Role::Replica => self.want(*key, &state, 0)?,
                Role::Owner | Role::Hub | Role::Static | Role::Arriving | Role::Leaving => {}
            }
        }
        Ok(())
    }

    /// Whoever decides for this node wants no replicas of `keys`.
    pub(crate) fn on_unreplicate(&mut self, keys: &[Key]) -> Result<(), String> {
        self.check_directed()?;
        self.check_keys(keys)?;
        keys.iter().try_for_each(|key| self.unwant(*key))
    }

    fn check_directed(&self) -> Result<(), String> {
        match self.replicas() {
            Some(Replicas::Directed { .. }) => Ok(()),
            None | Some(Replicas::Lazy | Replicas::Eager) => {
                Err("it directs replicas, which nobody does".into())
            }
        }
    }

    /// A replica of `key` is wanted here, with all updates up to clock `need`.
    pub(crate) fn want(&mut self, key: Key, state: &SlotState, need: u32) -> Result<(), String> {
        let Some(held) = self.holding.held.get_mut(&key) else {
            let generation = self.holding.fresh_generation();
            let (replica, queue) = (Replica::ask(generation), VecDeque::new());
            let asked = BTreeSet::from([need]);
            let held = Held { replica, since: self.now, wanted: true, closed: false, asked, queue };
            self.holding.held.insert(key, held);
            return self.tell_owner(key, state, ReplicaRequestKind::Ask, generation, need);
        };
        held.wanted = true;
        if held.closed {
            return Ok(());
        }
        if held.replica.stage() == Stage::Dropping {
            self.revive(key, state, need)?;
        } else if need > 0 && held.asked.insert(need) {
            let generation = held.replica.generation();
            self.tell_owner(key, state, ReplicaRequestKind::Ask, generation, need)?;
        }
        Ok(())
    }

    fn revive(&mut self, key: Key, state: &SlotState, need: u32) -> Result<(), String> {
        let held = self.holding.held.get(&key).expect("a replica that is dropped has a record");
        let generation = self.holding.generation_after(held.replica.generation());
        let held = self.holding.held.get_mut(&key).expect("a replica that is dropped has a record");
        held.replica.revive(generation);
        held.since = self.now;
        held.asked = BTreeSet::from([need]);
        self.tell_owner(key, state, ReplicaRequestKind::Ask, generation, need)
    }

    /// A replica of `key` is not wanted any more.
    pub(crate) fn unwant(&mut self, key: Key) -> Result<(), String> {
        if let Some(held) = self.holding.held.get_mut(&key) {
            held.wanted = false;
            self.end_if_due(key)?;
        }
        Ok(())
    }

    /// Nothing is served from the replica of `key` from now on; when it is gone, what waits goes to the owner.
    pub(crate) fn close(&mut self, mut entry: Entry<'_, SlotState, E>) -> Result<(), String> {
        let key = entry.key();
        entry.state_mut().set_closed(true);
        drop(entry);
        if let Some(held) = self.holding.held.get_mut(&key) {
            held.closed = true;
            self.carry_on(key)?;
        }
        Ok(())
    }

    /// Sends the updates of `key` that have not been sent, or that its replica ends. False if there are updates that must
    /// wait: for a value, or for the answer to the delta in flight.
    pub(crate) fn carry_on(&mut self, key: Key) -> Result<bool, String> {
        let shared = Arc::clone(&self.shared);
        let Some(held) = self.holding.held.get_mut(&key) else { return Ok(true) };
        let (mut entry, role) = shared.latch(key);
        if role != Role::Replica {
            return Ok(true);
        }
        if held.replica.stage() != Stage::Held || held.replica.is_sending() {
            return Ok(!entry.state().is_dirty());
        }
        let (ends, generation) = (held.ends(), held.replica.generation());
        if entry.state().is_dirty() {
            entry.state_mut().set_dirty(false);
            self.holding.dirty.remove(key);
            let state = entry.state();
            let value = entry.value_mut().expect("a replica has a value");
            if let Some((seq, delta)) = held.replica.collect(value) {
                drop(entry);
                self.stats.synced_keys += 1;
                let way = Self::way_to_owner(&shared, key, &state, ReplicaRequestKind::Delta)?;
                let value_bytes = size_of_val(delta);
                self.copies
                    .sync(way, key, generation, seq, value_bytes, |values| copy_to_bytes(delta, values));
                return Ok(true);
            }
        }
        if ends && !self.holding.away.contains_key(&key) && held.replica.drop_out() {
            let state = entry.state();
            drop(entry);
            self.tell_owner(key, &state, ReplicaRequestKind::Drop, generation, 0)?;
        }
        Ok(true)
    }

    /// An access of a worker here to `key` was sent away.
    pub(crate) fn sent_away(&mut self, key: Key) {
        if let Some(Replicas::Directed { .. }) = self.replicas() {
            *self.holding.away.entry(key).or_insert(0) += 1;
        }
    }

    /// Such an access has been answered, or served here.
    pub(crate) fn came_back(&mut self, key: Key) {
        if let Some(count) = self.holding.away.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.holding.away.remove(&key);
            }
        }
    }

    /// A replica that is to end may have nothing left to wait for. Updates that it has wait for their time, the next round or
    /// clock, or a copy that is added to all the time would be emptied once per round trip; unless somebody waits for its end.
    pub(crate) fn end_if_due(&mut self, key: Key) -> Result<(), String> {
        let Some(held) = self.holding.held.get(&key).filter(|held| held.ends()) else { return Ok(()) };
        let closed = held.closed;
        let (entry, role) = self.shared.latch(key);
        let updated = role == Role::Replica && entry.state().is_dirty();
        drop(entry);
        if updated && !closed {
            self.holding.dirty.insert(key);
            return Ok(());
        }
        self.carry_on(key).map(drop)
    }

    /// The owner tells something about replicas here.
    pub(crate) fn on_news(&mut self, from: NodeId, news: &ReplicaUpdate) -> Result<(), String> {
        self.check_news(news)?;
        let shared = Arc::clone(&self.shared);
        let mut offset = 0;
        for (at, key) in news.keys.iter().enumerate() {
            let key = *key;
            shared.prefetch(&news.keys, at);
            let start = offset;
            if matches!(news.kind, ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh) {
                offset += self.value_bytes(key);
            }
            if let Some(counter) = news.counters.get(at) {
                self.learn(key, from, *counter);
            }
            let generation = news.generations[at];
            let known =
                self.holding.held.get(&key).is_some_and(|held| held.replica.generation() == generation);
            match news.kind {
                ReplicaUpdateKind::SetUp if !known => self.refuse(&shared, key, generation)?,
                ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh if known => {
                    let value = &news.values[start..offset];
                    self.renew(&shared, key, value, news.seqs[at], news.versions[at], news.clock)?;
                }
                ReplicaUpdateKind::Acknowledged if known => {
                    let held = self.holding.held.get_mut(&key).expect("known");
                    if held.replica.acknowledged(news.versions[at], news.seqs[at]) {
                        self.after(&shared, key)?;
                    }
                }
                ReplicaUpdateKind::Dropped if known => self.on_dropped(&shared, key, generation)?,
                ReplicaUpdateKind::SetUp
                | ReplicaUpdateKind::Refresh
                | ReplicaUpdateKind::Acknowledged
                | ReplicaUpdateKind::Dropped => {}
            }
        }
        Ok(())
    }

    /// A registration that this node does not want: a late one. The owner must not think that there is a replica here.
    fn refuse(&mut self, shared: &Shared<E>, key: Key, generation: u32) -> Result<(), String> {
        let (entry, role) = shared.latch(key);
        let state = entry.state();
        drop(entry);
        if matches!(role, Role::Absent | Role::Replica) {
            self.tell_owner(key, &state, ReplicaRequestKind::Drop, generation, 0)?;
        }
        Ok(())
    }

    /// The main copy was `bytes`.
    fn renew(
        &mut self,
        shared: &Shared<E>,
        key: Key,
        bytes: &[u8],
        seq: u32,
        version: u32,
        clock: u32,
    ) -> Result<(), String> {
        let clocked = self.replicas().is_some_and(Replicas::is_clocked);
        let mut news = std::mem::take(&mut self.news);
        news.resize(shared.layout().len(key), E::ZERO);
        copy_from_bytes(&mut news, bytes);
        let held = self.holding.held.get_mut(&key).expect("the caller has looked");
        let (mut entry, role) = shared.latch(key);
        let new = held.replica.stage() == Stage::Asking;
        if new || held.replica.stage() == Stage::Reviving {
            self.intents.answered(self.now, held.since);
        }
        let updated = entry.state().is_dirty() && !new;
        if new {
            if role != Role::Absent {
                return Err(format!("it sets up a replica of {key:?}, which is {role:?} here"));
            }
            entry.allocate();
            let state = entry.state_mut();
            state.role = Role::Replica;
            state.side = 0;
            state.set_closed(held.closed);
            self.stats.replica_setups += 1;
        }
        let value = entry.value_mut().expect("a replica has a value");
        let newer = held.replica.news(version, seq, &news, value, updated);
        self.news = news;
        self.stats.synced_keys += u64::from(newer);
        // The same value may be known to be fresher.
        if newer || version == held.replica.version() {
            let state = entry.state_mut();
            if clocked {
                state.side = state.side.max(clock);
            }
            held.asked = held.asked.split_off(&clock.saturating_add(1));
            if self.shared.policy().replicas == Some(Replicas::Lazy) {
                self.holding.aging.insert((entry.state().side, key));
            }
        }
        drop(entry);
        if new {
            self.note(key, DecisionKind::SetUp);
            self.drain_queue(key)?;
        }
        self.after(shared, key)?;
        self.unpark(key)
    }

    /// What was under way for a replica has come to an end: what waited for it goes on.
    fn after(&mut self, shared: &Shared<E>, key: Key) -> Result<(), String> {
        if self.staleness.is_blocked_by(key) {
            if self.carry_on(key)? {
                self.staleness.unblock(key);
            }
        } else if shared.latch(key).0.state().is_dirty() {
            // In the next round, unless somebody waits for the end.
            self.holding.dirty.insert(key);
        }
        self.end_if_due(key)
    }

    fn on_dropped(&mut self, shared: &Shared<E>, key: Key, generation: u32) -> Result<(), String> {
        let held = self.holding.held.get_mut(&key).expect("the caller has looked");
        let (mut entry, _) = shared.latch(key);
        let state = entry.state();
        match held.replica.dropped(generation, state.is_dirty()) {
            Dropped::Stale => Ok(()),
            Dropped::Updated => {
                drop(entry);
                self.revive(key, &state, 0)
            }
            Dropped::Gone => {
                entry.release();
                let slot = entry.state_mut();
                slot.role = Role::Absent;
                slot.side = 0;
                slot.set_closed(false);
                if shared.is_lazy() && entry.state() == SlotState::default() {
                    entry.remove();
                } else {
                    drop(entry);
                    self.remember(key);
                }
                let held = self.holding.held.get(&key).expect("looked up above");
                self.stats.replica_drops += 1;
                let wanted = held.wanted;
                let forgotten = self.forget_replica(key);
                self.note(key, DecisionKind::GivenUp);
                if let Some(held) = forgotten {
                    self.serve_queue(key, held.queue)?;
                }
                self.unpark(key)?;
                if wanted {
                    let state = shared.latch(key).0.state();
                    self.want(key, &state, 0)?;
                }
                Ok(())
            }
        }
    }

    /// The replica of `key` is gone or has become the main copy. Its record, and what waited for it.
    pub(crate) fn forget_replica(&mut self, key: Key) -> Option<Held<E>> {
        self.holding.dirty.remove(key);
        self.staleness.unblock(key);
        self.holding.held.remove(&key)
    }

    fn drain_queue(&mut self, key: Key) -> Result<(), String> {
        let Some(held) = self.holding.held.get_mut(&key) else { return Ok(()) };
        let queue = std::mem::take(&mut held.queue);
        self.serve_queue(key, queue)
    }

    pub(crate) fn serve_queue(&mut self, key: Key, queue: VecDeque<(Access, Bytes)>) -> Result<(), String> {
        let shared = Arc::clone(&self.shared);
        for (access, operand) in queue {
            self.staleness.waited(&access);
            self.access(&shared, access, key, &operand, 0..operand.len())?;
        }
        Ok(())
    }

    /// An access waits for the replica of `key` to come or to go.
    pub(crate) fn queue(&mut self, key: Key, access: Access, operand: Bytes) {
        self.staleness.waits(&access);
        let held = self.holding.held.get_mut(&key).expect("who waits for a replica waits for one");
        held.queue.push_back((access, operand));
    }

    /// A read waits for a fresher copy of `key`, which is in this state.
    pub(crate) fn park(&mut self, key: Key, state: &SlotState, access: Access) -> Result<(), String> {
        self.stats.stale_reads += 1;
        self.holding.parked.entry(key).or_default().push_back(access);
        if state.role == Role::Replica && self.replicas() == Some(Replicas::Lazy) {
            self.want(key, state, access.need)?;
        }
        Ok(())
    }

    /// The copy of `key` may be fresher now, or gone.
    pub(crate) fn unpark(&mut self, key: Key) -> Result<(), String> {
        let Some(parked) = self.holding.parked.remove(&key) else { return Ok(()) };
        let shared = Arc::clone(&self.shared);
        for access in parked {
            self.access(&shared, access, key, &Bytes::new(), 0..0)?;
        }
        Ok(())
    }

    /// Copies of several keys may be fresher now.
    pub(crate) fn unpark_all(&mut self, which: impl Fn(Key) -> bool) -> Result<(), String> {
        let keys: Vec<Key> = self.holding.parked.keys().copied().filter(|key| which(*key)).collect();
        keys.into_iter().try_for_each(|key| self.unpark(key))
    }

    /// Gives up replicas that are too old for readers who need `need`, under lazy replication.
    pub(crate) fn age(&mut self, need: u32) -> Result<(), String> {
        if self.replicas() != Some(Replicas::Lazy) {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        while let Some((clock, key)) = self.holding.aging.first().copied()
            && clock < need
        {
            self.holding.aging.pop_first();
            let state = shared.latch(key).0.state();
            if state.role == Role::Replica && state.side < need {
                self.unwant(key)?;
            }
        }
        Ok(())
    }

    /// Gives up all replicas, and sends at once what was added to them.
    pub(crate) fn unwant_all(&mut self) -> Result<(), String> {
        #[expect(clippy::disallowed_methods, reason = "sorted right below")]
        let mut keys: Vec<Key> = self.holding.held.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            self.unwant(key)?;
            self.carry_on(key)?;
        }
        Ok(())
    }

    /// Finds keys whose values workers have changed: of replicas, of main copies with replicas elsewhere, of static replicas.
    pub(crate) fn gather(&mut self) {
        let shared = Arc::clone(&self.shared);
        let layout = shared.layout();
        let mut noted = std::mem::take(&mut self.noted);
        for shard in (self.id.index()..layout.shards()).step_by(layout.channels()) {
            if shared.store().has_noted(shard) {
                // Empty, so that the shard's list gets its memory.
                shared.store().take_noted(shard, &mut noted);
                noted.drain(..).for_each(|key| self.look_at(&shared, key));
            }
        }
        self.noted = noted;
    }

    /// A worker has changed the value of `key`.
    fn look_at(&mut self, shared: &Shared<E>, key: Key) {
        let (mut entry, role) = shared.latch(key);
        if !entry.state().is_dirty() {
            return;
        }
        match role {
            Role::Replica => {
                self.holding.dirty.insert(key);
            }
            Role::Static => {
                let index = entry.state().side;
                self.fixed.touched(index);
            }
            Role::Hub => {
                entry.state_mut().set_dirty(false);
                self.changed(key);
            }
            Role::Owner | Role::Absent | Role::Arriving | Role::Leaving => {
                entry.state_mut().set_dirty(false);
            }
        }
    }
}
