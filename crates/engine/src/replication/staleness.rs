//! Bounded staleness: what this node's clock waits for, and what waits for the global clock. See
//! [`intendant_techniques::clocks`].

use crate::channel::effects::{Access, Effect, Output};
use crate::error::ProtocolError;
use bytes::Bytes;
use intendant_core::{Key, NodeId, limits};
use intendant_techniques::clocks::{GlobalClock, NodeClock, RESTING};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The clocks of a channel, and the reads that wait for them.
pub(crate) struct Staleness {
    /// The clock that the workers reported last.
    heard: NodeClock,
    /// The clock that this node last sent to the other nodes.
    published: NodeClock,
    /// The clock to publish as soon as the updates of these keys have been sent.
    next: Option<(NodeClock, BTreeSet<Key>)>,
    /// Number of updates of this node's workers that wait in this channel, by the worker's clock.
    waiting: BTreeMap<u32, usize>,
    pub(super) global: GlobalClock,
    early: EarlyRequests,
    /// Reads that wait for fresher copies, also of keys that are owned here.
    parked: BTreeMap<Key, VecDeque<Access>>,
}

/// Requests of holders for clocks that the global clock has not reached. When it does, the holder gets the
/// value.
#[derive(Default)]
struct EarlyRequests {
    by_clock: BTreeSet<(u32, Key, NodeId)>,
    /// The same requests.
    by_holder: BTreeMap<(Key, NodeId), BTreeSet<u32>>,
}

impl EarlyRequests {
    fn insert(&mut self, need: u32, key: Key, holder: NodeId) -> Result<(), ProtocolError> {
        let clocks = self.by_holder.entry((key, holder)).or_default();
        // Each entry belongs to one worker, which waits for at most one clock per key. The clocks themselves
        // cannot be checked: a worker may be ahead of its node's clock without bound.
        if clocks.len() == limits::WORKERS_MAX && !clocks.contains(&need) {
            return Err(ProtocolError::TooManyClocks(key));
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

    /// Takes the requests that are due at clock `global`, one per key and holder.
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
            early: EarlyRequests::default(),
            parked: BTreeMap::new(),
        }
    }

    /// The workers report their node's clock. They compute it one after the other, but may report it in
    /// another order.
    pub(super) fn hear(&mut self, clock: NodeClock) {
        if clock.serial > self.heard.serial {
            self.heard = clock;
        }
    }

    /// Whether the clock to publish next waits for the updates of `key`.
    pub(super) fn is_blocked_by(&self, key: Key) -> bool {
        self.next.as_ref().is_some_and(|(_, blocked)| blocked.contains(&key))
    }

    /// The updates of `key` have been sent.
    pub(super) fn unblock(&mut self, key: Key) {
        if let Some((_, blocked)) = &mut self.next {
            blocked.remove(&key);
        }
    }

    /// An access begins to wait: if it is an update, the clock waits for it.
    pub(crate) fn waits(&mut self, access: &Access) {
        if access.writes() {
            *self.waiting.entry(access.clock).or_insert(0) += 1;
        }
    }

    /// An access ends its wait.
    pub(crate) fn waited(&mut self, access: &Access) {
        if access.writes()
            && let Some(count) = self.waiting.get_mut(&access.clock)
        {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&access.clock);
            }
        }
    }

    /// A read of `key` waits for a fresher copy.
    pub(crate) fn park(&mut self, key: Key, access: Access) {
        self.parked.entry(key).or_default().push_back(access);
    }

    /// The copy of `key` may be fresher now, or has been dropped.
    pub(super) fn unpark(&mut self, out: &mut Output, key: Key) {
        if self.parked.contains_key(&key) {
            out.effects.push(Effect::Unpark { key });
        }
    }

    /// Continues the reads that wait for a fresher copy of `key`.
    pub(crate) fn resume_parked(&mut self, out: &mut Output, key: Key) {
        for access in self.parked.remove(&key).into_iter().flatten() {
            out.effects.push(Effect::Resume { key, access, operand: Bytes::new() });
        }
    }

    /// The copies of the keys that `which` selects may be fresher now.
    pub(super) fn unpark_all(&mut self, out: &mut Output, which: impl Fn(Key) -> bool) {
        let keys = self.parked.keys().copied().filter(|key| which(*key));
        out.effects.extend(keys.map(|key| Effect::Unpark { key }));
    }

    /// The global clock: the values owned here contain all updates from earlier clocks.
    pub(crate) fn clock(&self) -> u32 {
        self.global.global()
    }

    /// `holder` asked for `key` as of clock `need`, which the global clock has not reached.
    pub(super) fn owe(&mut self, need: u32, key: Key, holder: NodeId) -> Result<(), ProtocolError> {
        self.early.insert(need, key, holder)
    }

    /// `holder` has no replica of `key` any more.
    pub(super) fn disown(&mut self, key: Key, holder: NodeId) {
        self.early.remove(key, holder);
    }

    /// Takes the keys and holders whose requests are due at the global clock.
    pub(super) fn take_due(&mut self) -> BTreeSet<(Key, NodeId)> {
        self.early.take(self.global.global())
    }

    /// The clock to publish next: the one that the workers reported last, or, if older updates wait on this
    /// node, the clock of the first of them. Such an update may wait for a read, which may wait until other
    /// nodes get this clock.
    pub(super) fn may_publish(&self) -> Option<NodeClock> {
        let (heard, published) = (self.heard, self.published);
        match self.waiting.first_key_value() {
            // An update made after a meeting that has not been reported to this channel is later than
            // everything before the meeting. It does not delay resting nodes.
            Some((first, _))
                if *first < heard.clock && (heard.clock != RESTING || *first <= heard.latest) =>
            {
                let newer = published.clock == RESTING || published.clock < *first;
                newer.then_some(NodeClock { clock: *first, ..heard })
            }
            Some(_) | None => Some(heard),
        }
    }

    /// Whether a clock waits to be published.
    pub(super) fn has_next(&self) -> bool {
        self.next.is_some()
    }

    /// Publishes `clock` as soon as the updates of the keys in `blocked` have been sent.
    pub(super) fn publish_after(&mut self, clock: NodeClock, blocked: BTreeSet<Key>) {
        self.next = Some((clock, blocked));
    }

    /// Takes the clock to publish, if no unsent updates block it. Returns it with the one published before.
    pub(super) fn take_next(&mut self) -> Option<(NodeClock, NodeClock)> {
        let (next, _) = self.next.take_if(|(_, blocked)| blocked.is_empty())?;
        Some((next, std::mem::replace(&mut self.published, next)))
    }

    /// Whether the other nodes know the clock that the workers reported last.
    pub(crate) fn is_settled(&self) -> bool {
        self.heard == self.published
    }
}
