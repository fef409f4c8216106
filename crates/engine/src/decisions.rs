//! The latest decisions about keys and their causes: they explain why a key is where it is.
//!
//! A channel keeps the last few decisions about all its keys, and more about watched keys.

use intendant_core::{Key, NodeId, Tick};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// Decisions about all keys that a channel remembers.
const RECENT_MAX: usize = 1 << 12;
/// Decisions about a watched key that a channel remembers.
const WATCHED_MAX: usize = 1 << 8;

/// Why an owner moves a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The active intent of this node has begun.
    Began(NodeId),
    /// The active intent of this node has ended.
    Ended(NodeId),
    /// The key's home has ordered it.
    Told,
}

/// A decision at one node, or its consequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionKind {
    /// The first active intent of this node's workers has begun.
    Began,
    /// The last active intent of this node's workers has ended.
    Ended,
    /// This owner has set up a replica at the given node.
    Registered(NodeId),
    /// The given node has dropped its replica of a key owned here.
    Released(NodeId),
    /// The key was owned here and has moved to the given node.
    Moved(NodeId, Cause),
    /// This home has ordered the owner to move the key to the given node, the only one with active intent.
    Ordered(NodeId),
    /// The key has arrived here from the given node.
    Arrived(NodeId),
    /// A replica has been set up here.
    SetUp,
    /// The replica here has been dropped.
    GivenUp,
}

impl fmt::Display for DecisionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began => f.write_str("intent here begins"),
            Self::Ended => f.write_str("intent here is over"),
            Self::Registered(node) => write!(f, "node {node} gets a replica"),
            Self::Released(node) => write!(f, "node {node} gives its replica up"),
            Self::Moved(node, Cause::Began(_)) => write!(f, "moves to node {node}, whose intent has begun"),
            Self::Moved(node, Cause::Ended(who)) => {
                write!(f, "moves to node {node}, the only one that is left: that of node {who} is over")
            }
            Self::Moved(node, Cause::Told) => write!(f, "moves to node {node}, as its home has ordered"),
            Self::Ordered(node) => write!(f, "is ordered to node {node}, the only one with intent"),
            Self::Arrived(node) => write!(f, "comes from node {node}"),
            Self::SetUp => f.write_str("is replicated here"),
            Self::GivenUp => f.write_str("is not replicated here any more"),
        }
    }
}

/// A decision at one node, with its time and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When, on the node's own clock.
    pub at: Tick,
    /// The key.
    pub key: Key,
    /// What was decided.
    pub what: DecisionKind,
}

/// Decisions of a channel. By default it keeps none.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    /// Whether decisions are kept: only intents lead to any.
    kept: bool,
    /// The latest decisions; full once there were so many, and then overwritten from the start.
    recent: Vec<Decision>,
    /// Where the next one is written.
    next: usize,
    watched: BTreeMap<Key, VecDeque<Decision>>,
}

impl Decisions {
    /// Keeps decisions from now on.
    pub(crate) fn new(watched: impl Iterator<Item = Key>) -> Self {
        let watched = watched.map(|key| (key, VecDeque::new())).collect();
        Self { kept: true, recent: Vec::new(), next: 0, watched }
    }

    #[inline]
    pub(crate) fn note(&mut self, at: Tick, key: Key, what: DecisionKind) {
        if !self.kept {
            return;
        }
        let decision = Decision { at, key, what };
        if !self.watched.is_empty()
            && let Some(kept) = self.watched.get_mut(&key)
        {
            if kept.len() == WATCHED_MAX {
                kept.pop_front();
            }
            kept.push_back(decision);
        }
        match self.recent.get_mut(self.next) {
            Some(oldest) => *oldest = decision,
            None => self.recent.push(decision),
        }
        self.next = (self.next + 1) % RECENT_MAX;
    }

    /// The remembered decisions about a key, oldest first.
    pub(crate) fn of(&self, key: Key) -> Vec<Decision> {
        match self.watched.get(&key) {
            Some(kept) => kept.iter().copied().collect(),
            None => {
                // Until the list is full, none is older than the first.
                let (later, earlier) = self.recent.split_at(self.next.min(self.recent.len()));
                earlier.iter().chain(later).filter(|decision| decision.key == key).copied().collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_decisions_are_kept_and_more_of_watched_keys() {
        let mut decisions = Decisions::new([Key(7)].into_iter());
        decisions.note(Tick(1), Key(7), DecisionKind::Began);
        decisions.note(Tick(1), Key(8), DecisionKind::Began);
        for at in 0..RECENT_MAX as u64 + 3 {
            decisions.note(Tick(2 + at), Key(9), DecisionKind::Ended);
        }
        let times: Vec<u64> = decisions.of(Key(9)).iter().map(|decision| decision.at.0).collect();
        assert_eq!(times, (5..RECENT_MAX as u64 + 5).collect::<Vec<_>>(), "oldest first");
        assert_eq!(decisions.of(Key(7)), [Decision { at: Tick(1), key: Key(7), what: DecisionKind::Began }]);
        assert_eq!(decisions.of(Key(8)), []);
        assert_eq!(decisions.of(Key(9)).len(), RECENT_MAX);
        for _ in 0..2 * WATCHED_MAX {
            decisions.note(Tick(0), Key(7), DecisionKind::SetUp);
        }
        assert_eq!(decisions.of(Key(7)).len(), WATCHED_MAX);
    }
}
