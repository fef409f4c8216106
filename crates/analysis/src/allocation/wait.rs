//! Accesses that workers waited for, and why.

use super::Allocation;
use crate::record::{REMOTE, Record, Stamped, WAITED};
use crate::run::stamped;
use intendant_core::NodeId;
use intendant_trace::{Micros, What};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

/// The most events before an access that are searched for its cause.
const SEARCHED_MAX: usize = 1 << 12;

/// The most accesses whose causes are searched; they are evenly spread. Each search takes some microseconds.
const CAUSES_MAX: usize = 1 << 16;

/// How often a cause made workers wait.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Causes {
    /// The cause, named as in [`Why`].
    pub cause: &'static str,
    /// The same in words.
    pub text: &'static str,
    /// Accesses.
    pub count: u64,
    /// How long they took together, in microseconds.
    pub us: u64,
}

/// An access that a worker waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// When it ended, in microseconds of the run's clock.
    pub at_us: u64,
    /// How long it took, in microseconds.
    pub after_us: u64,
    /// The node of the worker.
    pub node: u16,
    /// The key.
    pub key: u64,
    /// `pull`, `push` or `set`.
    pub access: String,
    /// The node that answered; `None` if the access waited for a key on its way.
    pub by: Option<u16>,
    /// Why the key was not at the node.
    pub why: Why,
    /// The same in words.
    pub text: String,
}

/// Why a key was not where it was accessed. Times are microseconds before the access began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "cause")]
pub enum Why {
    /// The node had neither asked for the key nor had intent for it.
    NeverWanted,
    /// The key was at the node, and moved to another node.
    MovedAway {
        /// The other node.
        to: u16,
        /// When it left.
        before_us: u64,
        /// Whether this node still wanted it: a localization conflict.
        conflict: bool,
    },
    /// The node had a replica, and dropped it.
    ReplicaDropped {
        /// When.
        before_us: u64,
    },
    /// The node had asked for it, and it had not come yet.
    AskedTooLate {
        /// When it asked.
        before_us: u64,
    },
    /// The node's intent had begun, and neither the key nor a replica had come yet.
    IntentTooLate {
        /// When it began.
        before_us: u64,
    },
    /// The node's intent was over.
    IntentOver {
        /// When it ended.
        before_us: u64,
    },
    /// The trace says that it was there: it came while the access was on its way, it was a replica older than
    /// the staleness bound allows, or events are missing.
    WasThere,
    /// Too many events happened to the key in between.
    NotSearched,
}

impl Why {
    /// The name of the cause, and what it means.
    fn named(&self) -> (&'static str, &'static str) {
        match self {
            Self::NeverWanted => ("never_wanted", "neither asked for nor intended"),
            Self::MovedAway { conflict: true, .. } => {
                ("moved_away", "moved away, although still wanted: conflicts")
            }
            Self::MovedAway { conflict: false, .. } => ("moved_away", "moved away"),
            Self::ReplicaDropped { .. } => ("replica_dropped", "the replica was dropped"),
            Self::AskedTooLate { .. } => ("asked_too_late", "asked for, and not there yet"),
            Self::IntentTooLate { .. } => {
                ("intent_too_late", "the intent had begun, and it was not there yet")
            }
            Self::IntentOver { .. } => ("intent_over", "the intent was over"),
            Self::WasThere => ("was_there", "came in the meantime, or was too old"),
            Self::NotSearched => ("not_searched", "not known"),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverWanted => f.write_str("the node has not asked for it and has had no intent"),
            Self::MovedAway { to, before_us, conflict } => {
                write!(f, "{} before, it moved away to node {to}", Micros(*before_us))?;
                f.write_str(if *conflict { ", although it was still wanted here" } else { "" })
            }
            Self::ReplicaDropped { before_us } => {
                write!(f, "its replica was dropped {} before", Micros(*before_us))
            }
            Self::AskedTooLate { before_us } => {
                write!(f, "the node asked for it only {} before, and it had not come yet", Micros(*before_us))
            }
            Self::IntentTooLate { before_us } => {
                write!(
                    f,
                    "the node's intent began only {} before, and it had not come yet",
                    Micros(*before_us)
                )
            }
            Self::IntentOver { before_us } => {
                write!(f, "the node's intent was over {} before", Micros(*before_us))
            }
            Self::WasThere => f.write_str("it came in the meantime, or was too old"),
            Self::NotSearched => f.write_str("too much happened to the key to tell"),
        }
    }
}

/// The access that an event reports, if it is one that waited.
pub(crate) fn wait_of(allocation: &Allocation, event: Stamped) -> Option<Wait> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "other events are not about accesses that wait")]
    let (access, by, after_us) = match event.what {
        What::Remote { access, by, after } => (access, Some(by.0), after),
        What::Waited { access, after } => (access, None, after),
        _ => return None,
    };
    let key = event.key?.0;
    let since = event.at_us.saturating_sub(after_us);
    let why = why(allocation, key, event.node, since, event.at_us);
    let whence = match by {
        Some(by) => format!("node {by} answered after {}", Micros(after_us)),
        None => format!("waited for {} for the key on its way", Micros(after_us)),
    };
    Some(Wait {
        at_us: event.at_us,
        after_us,
        node: event.node.0,
        key,
        access: access.to_string(),
        by,
        text: format!("{access} of key {key} at node {}: {whence}; {why}", event.node),
        why,
    })
}

/// Why a key was not at a node when an access began, at `since`. The access ended at `until`.
fn why(allocation: &Allocation, key: u64, node: NodeId, since: u64, until: u64) -> Why {
    let records = allocation.run().records();
    let positions = allocation.positions_of(key);
    let time = |position: &u32| records[*position as usize].at;
    let first = positions.partition_point(|position| time(position) < since);
    let conflict = positions[first..]
        .iter()
        .map(|position| records[*position as usize])
        .take_while(|record| record.at <= until)
        .take(SEARCHED_MAX)
        .any(|record| {
            record.node == node.0 && stamped(record).is_some_and(|event| event.what == What::Conflict)
        });
    let mut before = positions[..first].iter().rev();
    for position in before.by_ref().take(SEARCHED_MAX) {
        let record = records[*position as usize];
        let Some(event) = stamped(record).filter(|event| event.node == node) else { continue };
        let before_us = since - event.at_us;
        #[expect(clippy::wildcard_enum_match_arm, reason = "other events do not explain where a key is")]
        return match event.what {
            What::Left { to, .. } => Why::MovedAway { to: to.0, before_us, conflict },
            What::ReplicaDropped => Why::ReplicaDropped { before_us },
            What::Asked => Why::AskedTooLate { before_us },
            What::IntentBegan => Why::IntentTooLate { before_us },
            What::IntentEnded => Why::IntentOver { before_us },
            What::Arrived { .. } | What::ReplicaSetUp => Why::WasThere,
            _ => continue,
        };
    }
    if before.next().is_some() {
        return Why::NotSearched;
    }
    let was_home = allocation.run().home(key) == Some(node.0);
    if was_home || allocation.run().is_static_replica(key) { Why::WasThere } else { Why::NeverWanted }
}

impl Allocation {
    /// The causes of waits in descending order of frequency, and the number of accesses that were examined:
    /// all, or as many as possible, evenly spread.
    #[must_use]
    pub fn causes(&self) -> (Vec<Causes>, u64) {
        let records = self.run().records();
        let each = self.waits().len().div_ceil(CAUSES_MAX).max(1);
        let mut found: Vec<Causes> = Vec::new();
        let mut looked_at = 0;
        for record in self.waits().iter().step_by(each).map(|position| records[*position as usize]) {
            let since = record.at.saturating_sub(record.detail);
            let (cause, text) = why(self, record.key, NodeId(record.node), since, record.at).named();
            looked_at += 1;
            match found.iter_mut().find(|causes| causes.text == text) {
                Some(causes) => {
                    causes.count += 1;
                    causes.us = causes.us.saturating_add(record.detail);
                }
                None => found.push(Causes { cause, text, count: 1, us: record.detail }),
            }
        }
        found.sort_by_key(|causes| (Reverse(causes.count), causes.text));
        (found, looked_at)
    }

    /// The longest waits for the selected keys, in descending order.
    #[must_use]
    pub fn longest_waits(&self, count: usize) -> Vec<Wait> {
        let records = self.run().records();
        let mut longest = BinaryHeap::with_capacity(count.min(self.waits().len()) + 1);
        for position in self.waits() {
            let Record { detail, .. } = records[*position as usize];
            longest.push((Reverse(detail), *position));
            if longest.len() > count {
                longest.pop();
            }
        }
        let mut longest = longest.into_vec();
        longest.sort_unstable();
        let event = |(_, position): (Reverse<u64>, u32)| self.run().event(position as usize);
        longest.into_iter().filter_map(event).filter_map(|event| wait_of(self, event)).collect()
    }

    /// The longest waits for a key that ended between two times, in descending order.
    #[must_use]
    pub fn longest_waits_of(&self, key: u64, from_us: u64, to_us: u64, count: usize) -> Vec<Wait> {
        let records = self.run().records();
        let mut waits: Vec<(Reverse<u64>, u32)> = self
            .positions_of(key)
            .iter()
            .map(|position| (records[*position as usize], *position))
            .filter(|(record, _)| {
                [REMOTE, WAITED].contains(&record.kind) && (from_us..=to_us).contains(&record.at)
            })
            .map(|(record, position)| (Reverse(record.detail), position))
            .collect();
        if count < waits.len() {
            waits.select_nth_unstable(count);
            waits.truncate(count);
        }
        waits.sort_unstable();
        let event = |(_, position): (Reverse<u64>, u32)| self.run().event(position as usize);
        waits.into_iter().filter_map(event).filter_map(|event| wait_of(self, event)).collect()
    }
}
