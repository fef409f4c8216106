//! What was decided about keys lately, and why: for whoever wants to know why a key is where it is.
//!
//! A channel keeps the last few decisions about all its keys, and more of keys that are watched.

use intendant_core::{Key, NodeId, Tick};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// Decisions about all keys that a channel remembers.
const RECENT_MAX: usize = 1 << 12;
/// Decisions about a key that is watched.
const WATCHED_MAX: usize = 1 << 8;

/// Why an owner moves a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// This node has begun to have active intent.
    Began(NodeId),
    /// This node has none any more.
    Ended(NodeId),
    /// The key's home has told this node to.
    Told,
}

/// What was decided, or what came of it, at one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionKind {
    /// This node's workers have begun to have active intent.
    Began,
    /// They have none any more.
    Ended,
    /// The key is owned here, and now replicated at this node as well.
    Registered(NodeId),
    /// The key is owned here, and not replicated at this node any more.
    Released(NodeId),
    /// The key was owned here, and moved to this node.
    Moved(NodeId, Cause),
    /// The key's home is here, and its owner has been told to move it to this node, the only one with active intent.
    Ordered(NodeId),
    /// The key has come here from this node.
    Arrived(NodeId),
    /// A replica has been set up here.
    SetUp,
    /// The replica here has been given up.
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

/// A decision at one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When, on the node's own clock.
    pub at: Tick,
    /// The key.
    pub key: Key,
    /// What.
    pub what: DecisionKind,
}

/// Decisions of a channel.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    recent: VecDeque<Decision>,
    watched: BTreeMap<Key, VecDeque<Decision>>,
}

impl Decisions {
    pub(crate) fn new(watched: impl Iterator<Item = Key>) -> Self {
        Self { recent: VecDeque::new(), watched: watched.map(|key| (key, VecDeque::new())).collect() }
    }

    pub(crate) fn note(&mut self, at: Tick, key: Key, what: DecisionKind) {
        let decision = Decision { at, key, what };
        if !self.watched.is_empty()
            && let Some(kept) = self.watched.get_mut(&key)
        {
            push(kept, decision, WATCHED_MAX);
        }
        push(&mut self.recent, decision, RECENT_MAX);
    }

    /// What is remembered of a key, oldest first.
    pub(crate) fn of(&self, key: Key) -> Vec<Decision> {
        match self.watched.get(&key) {
            Some(kept) => kept.iter().copied().collect(),
            None => self.recent.iter().filter(|decision| decision.key == key).copied().collect(),
        }
    }
}

fn push(kept: &mut VecDeque<Decision>, decision: Decision, max: usize) {
    if kept.len() == max {
        kept.pop_front();
    }
    kept.push_back(decision);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_decisions_are_kept_and_more_of_watched_keys() {
        let mut decisions = Decisions::new([Key(7)].into_iter());
        decisions.note(Tick(1), Key(7), DecisionKind::Began);
        decisions.note(Tick(1), Key(8), DecisionKind::Began);
        for at in 0..RECENT_MAX as u64 {
            decisions.note(Tick(2 + at), Key(9), DecisionKind::Ended);
        }
        assert_eq!(decisions.of(Key(7)), [Decision { at: Tick(1), key: Key(7), what: DecisionKind::Began }]);
        assert_eq!(decisions.of(Key(8)), []);
        assert_eq!(decisions.of(Key(9)).len(), RECENT_MAX);
        for _ in 0..2 * WATCHED_MAX {
            decisions.note(Tick(0), Key(7), DecisionKind::SetUp);
        }
        assert_eq!(decisions.of(Key(7)).len(), WATCHED_MAX);
    }
}
