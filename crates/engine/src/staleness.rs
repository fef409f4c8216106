//! Bounded staleness: what this node's clock waits for, and what waits for the global clock. See
//! [`intendant_techniques::clocks`].

use crate::accesses::Access;
use crate::channel::Channel;
use crate::input::Action;
use intendant_core::{Element, Key, NodeId, limits};
use intendant_techniques::Replicas;
use intendant_techniques::clocks::{GlobalClock, NodeClock, RESTING};
use intendant_wire::{AccessKind, Clock, ClockScope, Message};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The clocks of a channel.
pub(crate) struct Staleness {
    /// What the workers said last.
    heard: NodeClock,
    /// What the other nodes were told last.
    published: NodeClock,
    /// What they are to be told as soon as the updates of these keys have been sent.
    next: Option<(NodeClock, BTreeSet<Key>)>,
    /// Updates that wait here, by the clock at which they were made.
    waiting: BTreeMap<u32, usize>,
    global: GlobalClock,
    early: Early,
}

/// Who is to be told about which keys when the global clock has come how far.
#[derive(Default)]
struct Early {
    by_clock: BTreeSet<(u32, Key, NodeId)>,
    /// The same.
    by_holder: BTreeMap<(Key, NodeId), BTreeSet<u32>>,
}

impl Early {
    fn insert(&mut self, need: u32, key: Key, holder: NodeId) -> Result<(), String> {
        let clocks = self.by_holder.entry((key, holder)).or_default();
        // Each is of a worker that waits for nothing else on this key. How far a worker is ahead of what its node tells has no
        // bound: the clocks themselves cannot be checked.
        if clocks.len() == limits::WORKERS_MAX && !clocks.contains(&need) {
            return Err(format!("it waits for {key:?} as of more clocks than a node has workers"));
        }
        clocks.insert(need);
        self.by_clock.insert((need, key, holder));
        Ok(())
    }

    fn remove(&mut self, key: Key, holder: NodeId) {
        for need in self.by_holder.remove(&(key, holder)).unwrap_or_default() {
            self.by_clock.remove(&(need, key, holder));
        }
    }

    /// What is due at clock `global`, once for however many clocks somebody asked.
    fn take(&mut self, global: u32) -> BTreeSet<(Key, NodeId)> {
        let mut due = BTreeSet::new();
        while let Some((need, key, holder)) = self.by_clock.pop_first() {
            if need > global {
                self.by_clock.insert((need, key, holder));
                break;
            }
            if let Some(clocks) = self.by_holder.get_mut(&(key, holder)) {
                clocks.remove(&need);
                if clocks.is_empty() {
                    self.by_holder.remove(&(key, holder));
                }
            }
            due.insert((key, holder));
        }
        due
    }
}

impl Staleness {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            heard: NodeClock::default(),
            published: NodeClock::default(),
            next: None,
            waiting: BTreeMap::new(),
            global: GlobalClock::new(nodes),
            early: Early::default(),
        }
    }

    /// The updates of `key` are all that the clock waits for, or among it.
    pub(crate) fn is_blocked_by(&self, key: Key) -> bool {
        self.next.as_ref().is_some_and(|(_, blocked)| blocked.contains(&key))
    }

    /// The updates of `key` have been sent.
    pub(crate) fn unblock(&mut self, key: Key) {
        if let Some((_, blocked)) = &mut self.next {
            blocked.remove(&key);
        }
    }

    /// An access begins to wait: if it is an update, the clock waits for it.
    pub(crate) fn waits(&mut self, access: &Access) {
        if access.kind != AccessKind::Pull {
            *self.waiting.entry(access.clock).or_insert(0) += 1;
        }
    }

    /// An access has waited long enough.
    pub(crate) fn waited(&mut self, access: &Access) {
        if access.kind != AccessKind::Pull
            && let Some(count) = self.waiting.get_mut(&access.clock)
        {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&access.clock);
            }
        }
    }

    /// Updates made at clocks before this one are in the values owned here.
    pub(crate) fn global(&self) -> u32 {
        self.global.global()
    }

    /// `holder` asked for `key` as of a clock that has not come.
    pub(crate) fn owe(&mut self, need: u32, key: Key, holder: NodeId) -> Result<(), String> {
        self.early.insert(need, key, holder)
    }

    /// `holder` has no copy of `key` any more.
    pub(crate) fn disown(&mut self, key: Key, holder: NodeId) {
        self.early.remove(key, holder);
    }

    /// What the other nodes may be told next: what the workers said last, or, if older updates wait here, the clock of the first
    /// of them. It may wait for a read, which may wait for other nodes to hear this.
    fn may_tell(&self) -> Option<NodeClock> {
        let (heard, published) = (self.heard, self.published);
        match self.waiting.first_key_value() {
            // What came from a meeting of which this channel has not heard is later than all that was before, and no business
            // of those who rest.
            Some((first, _))
                if *first < heard.clock && (heard.clock != RESTING || *first <= heard.latest) =>
            {
                let news = published.clock == RESTING || published.clock < *first;
                news.then_some(NodeClock { clock: *first, ..heard })
            }
            Some(_) | None => Some(heard),
        }
    }

    /// Whether the other nodes know what the workers said last.
    pub(crate) fn is_settled(&self) -> bool {
        self.heard == self.published
    }
}

impl<E: Element> Channel<E> {
    fn is_clocked(&self) -> bool {
        self.shared.policy().replicas.is_some_and(Replicas::is_clocked)
    }

    pub(crate) fn on_node_clock(&mut self, clock: NodeClock) {
        // Workers compute their node's clock one after the other, but may tell it in another order.
        if self.is_clocked() && clock.serial > self.staleness.heard.serial {
            self.staleness.heard = clock;
        }
    }

    /// Tells the other nodes how far the workers of this one are, once all that they added before is on its way. Whether it did.
    pub(crate) fn publish(&mut self, actions: &mut Vec<Action>) -> Result<bool, String> {
        let mut told = false;
        while self.is_clocked() && !self.staleness.is_settled() {
            if self.staleness.next.is_none() {
                let Some(clock) = self.staleness.may_tell() else { return Ok(told) };
                self.gather();
                let mut blocked = BTreeSet::new();
                for key in self.holding.dirty.take() {
                    if !self.carry_on(key)? {
                        self.holding.dirty.insert(key);
                        blocked.insert(key);
                    }
                }
                self.staleness.next = Some((clock, blocked));
            }
            let Some((next, _)) = self.staleness.next.take_if(|(_, blocked)| blocked.is_empty()) else {
                return Ok(told);
            };
            self.batch.flush(actions);
            self.copies.flush_sync(actions);
            self.tell_clock(next, actions)?;
            told = true;
        }
        Ok(told)
    }

    fn tell_clock(&mut self, next: NodeClock, actions: &mut Vec<Action>) -> Result<(), String> {
        let here = self.shared.node();
        let before = std::mem::replace(&mut self.staleness.published, next);
        self.stats.sync_rounds += 1;
        // Each of them, even if there was no time to tell of one before the next: the others count.
        for _ in 0..next.meetings.wrapping_sub(before.meetings) {
            self.broadcast(ClockScope::Resumed, 0, |_| true, actions);
            self.staleness.global.resume(here);
        }
        self.broadcast(ClockScope::Node, next.clock, |_| true, actions);
        let advanced = self.staleness.global.reach(here, next.clock);
        self.age(self.shared.need(next.clock.min(self.staleness.global.latest())))?;
        if advanced { self.on_global(actions) } else { Ok(()) }
    }

    fn broadcast(
        &self,
        scope: ClockScope,
        clock: u32,
        whom: impl Fn(NodeId) -> bool,
        actions: &mut Vec<Action>,
    ) {
        let nodes = (0..self.shared.layout().nodes()).map(|node| NodeId(node as u16));
        for to in nodes.filter(|to| *to != self.shared.node() && whom(*to)) {
            actions.push(Action::Send { to, message: Message::Clock(Clock { scope, clock }) });
        }
    }

    /// Another node tells how far workers are.
    pub(crate) fn on_clock(
        &mut self,
        from: NodeId,
        clock: &Clock,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        if !self.is_clocked() {
            let name = self.shared.policy().name;
            return Err(format!("it tells a clock, which nobody does with technique {name}"));
        }
        let advanced = match clock.scope {
            ClockScope::Node => self.staleness.global.reach(from, clock.clock),
            ClockScope::Resumed => {
                self.staleness.global.resume(from);
                false
            }
            ClockScope::Global => {
                self.shared.set_fresh(self.id, from, clock.clock);
                let shared = Arc::clone(&self.shared);
                return self.unpark_all(|key| shared.directory().home(key) == from);
            }
        };
        if advanced { self.on_global(actions) } else { Ok(()) }
    }

    /// The slowest node has advanced: what was too early is not any more.
    fn on_global(&mut self, actions: &mut Vec<Action>) -> Result<(), String> {
        let shared = Arc::clone(&self.shared);
        let global = self.staleness.global();
        shared.set_global(self.id, global);
        let due = self.staleness.early.take(global);
        due.into_iter().for_each(|(key, holder)| self.refresh(&shared, key, holder));
        if shared.policy().replicas == Some(Replicas::Eager) {
            self.gather();
            self.tell_all();
            // The news are worth nothing to readers before they know how new they are.
            self.copies.flush_news(actions);
            let holders = &self.hubs.holders;
            let holds = |node: NodeId| holders.get(node.index()).is_some_and(|count| *count > 0);
            self.broadcast(ClockScope::Global, global, holds, actions);
        }
        self.unpark_all(|key| shared.directory().is_home(key))
    }
}
