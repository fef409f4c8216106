//! All that is known about a key.

use super::wait::{Wait, wait_of};
use super::{Allocation, KeyCounts};
use crate::record::Stamped;
use crate::replay::{Inconsistencies, Place, Replay};
use intendant_core::NodeId;
use intendant_trace::What;
use serde::Serialize;
use std::collections::BTreeMap;

/// A period at a node, in microseconds of the run's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The node.
    pub node: u16,
    /// When it begins.
    pub from_us: u64,
    /// When it ends.
    pub to_us: u64,
}

/// A period in which a key was on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The previous owner.
    pub from: u16,
    /// The next owner.
    pub to: u16,
    /// When it left.
    pub from_us: u64,
    /// When it arrived.
    pub to_us: u64,
}

/// Something that happened to a key, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// When, in microseconds of the run's clock.
    pub at_us: u64,
    /// Where.
    pub node: u16,
    /// What happened.
    pub text: String,
    /// Whether the event is about the management of the key, and not about an access.
    pub moves: bool,
}

/// All that is known about a key. A span that began before the first event of the run begins with that event.
/// A span that did not end ends with the last event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyHistory {
    /// The key.
    pub key: u64,
    /// The name of its range, and its number within the range.
    pub name: Option<(String, u64)>,
    /// Its home; `None` if it is not known.
    pub home: Option<u16>,
    /// Whether every node has a replica throughout the run.
    pub is_static_replica: bool,
    /// When the run begins.
    pub from_us: u64,
    /// When the run ends.
    pub to_us: u64,
    /// How often things happened.
    pub counts: KeyCounts,
    /// Its owners, by time.
    pub ownership: Vec<Span>,
    /// When it was on its way.
    pub gaps: Vec<Gap>,
    /// Periods with a replica, in the order of their ends.
    pub replicas: Vec<Span>,
    /// Periods with intent, in the order of their ends.
    pub intents: Vec<Span>,
    /// Accesses that waited, by time.
    pub waits: Vec<Wait>,
    /// When accesses found that it was gone again.
    pub conflicts: Vec<Span>,
    /// Everything in words, by time.
    pub decisions: Vec<Decision>,
    /// Items that are left out, because a list was full.
    pub omitted: u64,
    /// Events that contradict each other.
    pub inconsistencies: Inconsistencies,
}

impl Allocation {
    /// All that is known about a key. Of each kind of item, the first `items_max` are included.
    #[must_use]
    pub fn history(&self, key: u64, items_max: usize) -> KeyHistory {
        let run = self.run();
        let (from_us, to_us) = run.span_us();
        let mut history = KeyHistory {
            key,
            name: run.name(key).map(|(range, number)| (range.to_owned(), number)),
            home: run.home(key),
            is_static_replica: run.is_static_replica(key),
            from_us,
            to_us,
            counts: self.counts_of(key),
            ownership: Vec::new(),
            gaps: Vec::new(),
            replicas: Vec::new(),
            intents: Vec::new(),
            waits: Vec::new(),
            conflicts: Vec::new(),
            decisions: Vec::new(),
            omitted: 0,
            inconsistencies: Inconsistencies::default(),
        };
        let mut builder = Builder { history: &mut history, items_max, since: from_us };
        let mut replay = Replay::new(run.home(key));
        let (mut replicas, mut intents) = (BTreeMap::new(), BTreeMap::new());
        for event in self.events_of(key) {
            builder.hear(self, event);
            let before = replay.place;
            let change = replay.hear(event.node.0, &event.what);
            if change.place.is_some() {
                builder.leave(before, event.at_us);
            }
            for (open, change, list) in [
                (&mut replicas, change.replica, List::Replicas),
                (&mut intents, change.intent, List::Intents),
            ] {
                match change {
                    Some((node, true)) => {
                        open.insert(node, event.at_us);
                    }
                    Some((node, false)) => {
                        if let Some(from_us) = open.remove(&node) {
                            builder.span(list, Span { node, from_us, to_us: event.at_us });
                        }
                    }
                    None => {}
                }
            }
        }
        builder.leave(replay.place, to_us);
        for (open, list) in [(replicas, List::Replicas), (intents, List::Intents)] {
            for (node, from_us) in open {
                builder.span(list, Span { node, from_us, to_us });
            }
        }
        history.inconsistencies = replay.inconsistencies;
        history
    }
}

/// The lists of spans.
#[derive(Clone, Copy)]
enum List {
    Replicas,
    Intents,
    Conflicts,
}

struct Builder<'a> {
    history: &'a mut KeyHistory,
    items_max: usize,
    /// When the key came to its current place.
    since: u64,
}

impl Builder<'_> {
    fn hear(&mut self, allocation: &Allocation, event: Stamped) {
        let Stamped { at_us, node: NodeId(node), what, .. } = event;
        let waits = matches!(what, What::Remote { .. } | What::Waited { .. });
        let moves = !waits && what != What::Conflict;
        if what == What::Conflict {
            self.span(List::Conflicts, Span { node, from_us: at_us, to_us: at_us });
        }
        let KeyHistory { waits: list, decisions, omitted, .. } = &mut *self.history;
        // Causes and texts take time, so they are computed only for items that are kept.
        if waits && list.len() < self.items_max {
            list.extend(wait_of(allocation, event));
        } else if waits {
            *omitted += 1;
        }
        if decisions.len() < self.items_max {
            decisions.push(Decision { at_us, node, text: what.to_string(), moves });
        } else {
            *omitted += 1;
        }
    }

    /// Ends the period at `place`: the key is elsewhere from `at_us` on.
    fn leave(&mut self, place: Place, at_us: u64) {
        let (from_us, to_us) = (std::mem::replace(&mut self.since, at_us), at_us);
        let KeyHistory { ownership, gaps, omitted, .. } = &mut *self.history;
        match place {
            Place::At { node } => push(ownership, Span { node, from_us, to_us }, self.items_max, omitted),
            Place::Moving { from, to } => {
                push(gaps, Gap { from, to, from_us, to_us }, self.items_max, omitted)
            }
            Place::Unknown => {}
        }
    }

    fn span(&mut self, list: List, span: Span) {
        let KeyHistory { replicas, intents, conflicts, omitted, .. } = &mut *self.history;
        let list = match list {
            List::Replicas => replicas,
            List::Intents => intents,
            List::Conflicts => conflicts,
        };
        push(list, span, self.items_max, omitted);
    }
}

fn push<T>(list: &mut Vec<T>, item: T, items_max: usize, omitted: &mut u64) {
    if list.len() < items_max {
        list.push(item);
    } else {
        *omitted += 1;
    }
}
