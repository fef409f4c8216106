//! What happens to keys: the latest decisions about them, which explain why a key is where it is, and the
//! events of a trace.
//!
//! A channel keeps the last few decisions about all its keys, and more about watched keys. If it traces, it
//! also keeps all events about the traced keys until its caller takes them.

use hashbrown::HashSet;
use intendant_core::{ChannelId, Key, Tick};
use intendant_trace::{Access, Event, Filter, What};
use intendant_wire::AccessKind;
use std::collections::{BTreeMap, VecDeque};

/// How a trace names an access.
pub(crate) const fn traced(kind: AccessKind) -> Access {
    match kind {
        AccessKind::Pull => Access::Pull,
        AccessKind::Push => Access::Push,
        AccessKind::Set => Access::Set,
    }
}

/// How many decisions a channel remembers, about all keys together.
const RECENT_MAX: usize = 1 << 12;
/// How many decisions a channel remembers about each watched key.
const WATCHED_MAX: usize = 1 << 8;

/// Events of a channel. By default it keeps none.
#[derive(Debug, Default)]
pub(crate) struct Events {
    channel: ChannelId,
    /// The latest decisions; `None` if the channel keeps none, because only intents lead to decisions.
    decisions: Option<Decisions>,
    trace: Option<Trace>,
}

/// The latest decisions.
#[derive(Debug, Default)]
struct Decisions {
    /// A ring: once it has [`RECENT_MAX`] events, each new event overwrites the oldest.
    recent: Vec<Event>,
    /// Where the next one is written.
    next: usize,
    watched: BTreeMap<Key, VecDeque<Event>>,
}

/// The events since the caller took them last.
#[derive(Debug)]
struct Trace {
    filter: Filter,
    events: Vec<Event>,
    /// The traced keys for which this node has active intent. A round also looks at keys whose intent has
    /// ended and begun again since the last round, or begun and ended. For a trace, nothing has changed for
    /// these keys.
    intended: HashSet<Key, foldhash::fast::FixedState>,
}

impl Trace {
    fn keep(&mut self, event: Event) {
        let Some(key) = event.key else { return self.events.push(event) };
        let is_new = self.filter.accepts(key)
            && if event.what == What::IntentBegan {
                self.intended.insert(key)
            } else {
                event.what != What::IntentEnded || self.intended.remove(&key)
            };
        if is_new {
            self.events.push(event);
        }
    }
}

impl Events {
    pub(crate) fn new(channel: ChannelId) -> Self {
        Self { channel, decisions: None, trace: None }
    }

    /// Keeps decisions from now on.
    pub(crate) fn keep_decisions(&mut self, watched: impl Iterator<Item = Key>) {
        let watched = watched.map(|key| (key, VecDeque::new())).collect();
        self.decisions = Some(Decisions { watched, ..Decisions::default() });
    }

    /// Traces from now on.
    pub(crate) fn trace(&mut self, filter: Filter) {
        self.trace = Some(Trace { filter, events: Vec::new(), intended: HashSet::default() });
    }

    /// The events since the last call.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Event> + '_ {
        self.trace.iter_mut().flat_map(|trace| trace.events.drain(..))
    }

    /// Whether anything is traced.
    pub(crate) const fn are_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// Notes a decision about a key, or its consequence.
    #[inline]
    pub(crate) fn decided(&mut self, at: Tick, key: Key, what: What) {
        if self.decisions.is_some() || self.trace.is_some() {
            self.keep_decision(at, key, what);
        }
    }

    // Separate functions keep events, so that the code of callers that keep nothing stays short.
    #[inline(never)]
    fn keep_decision(&mut self, at: Tick, key: Key, what: What) {
        if let Some(decisions) = &mut self.decisions {
            decisions.note(Event { at, channel: self.channel, key: Some(key), what });
        }
        self.note(at, key, what);
    }

    /// Notes what happens to a key.
    #[inline]
    pub(crate) fn note(&mut self, at: Tick, key: Key, what: What) {
        if self.trace.is_some() {
            self.keep(at, Some(key), what);
        }
    }

    /// Notes an event that concerns no particular key.
    #[inline]
    pub(crate) fn note_general(&mut self, at: Tick, what: What) {
        if self.trace.is_some() {
            self.keep(at, None, what);
        }
    }

    #[inline(never)]
    fn keep(&mut self, at: Tick, key: Option<Key>, what: What) {
        if let Some(trace) = &mut self.trace {
            trace.keep(Event { at, channel: self.channel, key, what });
        }
    }

    /// The remembered decisions about a key, oldest first.
    pub(crate) fn of(&self, key: Key) -> Vec<Event> {
        self.decisions.as_ref().map_or_else(Vec::new, |decisions| decisions.of(key))
    }
}

impl Decisions {
    fn note(&mut self, event: Event) {
        if !self.watched.is_empty()
            && let Some(kept) = event.key.and_then(|key| self.watched.get_mut(&key))
        {
            if kept.len() == WATCHED_MAX {
                kept.pop_front();
            }
            kept.push_back(event);
        }
        match self.recent.get_mut(self.next) {
            Some(oldest) => *oldest = event,
            None => self.recent.push(event),
        }
        self.next = (self.next + 1) % RECENT_MAX;
    }

    fn of(&self, key: Key) -> Vec<Event> {
        match self.watched.get(&key) {
            Some(kept) => kept.iter().copied().collect(),
            None => {
                // Until the list is full, none is older than the first.
                let (later, earlier) = self.recent.split_at(self.next.min(self.recent.len()));
                earlier.iter().chain(later).filter(|event| event.key == Some(key)).copied().collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_decisions_are_kept_and_more_of_watched_keys() {
        let mut events = Events::new(ChannelId(1));
        events.decided(Tick(0), Key(7), What::IntentBegan);
        assert_eq!(events.of(Key(7)), []);
        events.keep_decisions([Key(7)].into_iter());
        events.decided(Tick(1), Key(7), What::IntentBegan);
        events.decided(Tick(1), Key(8), What::IntentBegan);
        for at in 0..RECENT_MAX as u64 + 3 {
            events.decided(Tick(2 + at), Key(9), What::IntentEnded);
        }
        let times: Vec<u64> = events.of(Key(9)).iter().map(|event| event.at.0).collect();
        assert_eq!(times, (5..RECENT_MAX as u64 + 5).collect::<Vec<_>>(), "oldest first");
        let (at, channel, key) = (Tick(1), ChannelId(1), Some(Key(7)));
        assert_eq!(events.of(Key(7)), [Event { at, channel, key, what: What::IntentBegan }]);
        assert_eq!(events.of(Key(8)), []);
        assert_eq!(events.of(Key(9)).len(), RECENT_MAX);
        for _ in 0..2 * WATCHED_MAX {
            events.decided(Tick(0), Key(7), What::ReplicaSetUp);
        }
        assert_eq!(events.of(Key(7)).len(), WATCHED_MAX);
        assert_eq!(events.take().count(), 0, "nothing is traced");
    }

    #[test]
    fn a_trace_has_the_events_of_its_keys_until_they_are_taken() {
        let mut events = Events::new(ChannelId(1));
        events.trace("7..9".parse().unwrap());
        events.decided(Tick(1), Key(7), What::IntentBegan);
        events.note(Tick(2), Key(8), What::Conflict);
        events.note(Tick(3), Key(9), What::Conflict);
        events.note_general(Tick(4), What::Synced { values: 5 });
        assert!(events.are_traced());
        let taken: Vec<_> = events.take().map(|event| (event.at.0, event.key)).collect();
        assert_eq!(taken, [(1, Some(Key(7))), (2, Some(Key(8))), (4, None)]);
        assert_eq!(events.take().count(), 0);
    }

    #[test]
    fn a_trace_has_intents_when_they_begin_and_end_and_not_when_they_stay() {
        let mut events = Events::new(ChannelId(1));
        events.trace(Filter::All);
        use What::{IntentBegan as Began, IntentEnded as Ended};
        for what in [Ended, Began, Began, Ended, Ended, Began] {
            events.decided(Tick(1), Key(7), what);
        }
        events.decided(Tick(1), Key(8), Began);
        let taken: Vec<_> = events.take().map(|event| (event.key.unwrap().0, event.what)).collect();
        assert_eq!(taken, [(7, Began), (7, Ended), (7, Began), (8, Began)]);
    }
}
