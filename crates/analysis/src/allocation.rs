//! Where keys were, over time.

mod affinity;
mod history;
mod instants;
mod rows;
mod wait;

pub use affinity::Affinity;
pub use history::{Decision, Gap, KeyHistory, Span};
pub use instants::Instant;
pub use rows::{MOVING, NodeRow, Row, Stretch, UNKNOWN, Window};
pub use wait::{Causes, Wait, Why};

use crate::keys::Keys;
use crate::record::{NO_KEY, REMOTE, Record, Stamped, WAITED};
use crate::replay::{Inconsistencies, Place, Replay};
use crate::run::{Run, stamped};
use crate::track::{Track, owner_code, owner_of, switch_code, switch_of};
use hashbrown::HashMap;
use intendant_core::Key;
use intendant_trace::{Filter, What};
use serde::Serialize;
use std::sync::Arc;

/// Counts of the events of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeyCounts {
    /// The key.
    pub key: u64,
    /// Arrivals at another node.
    pub relocations: u32,
    /// Replicas that were set up.
    pub replicas: u32,
    /// Accesses that another node served.
    pub remote: u32,
    /// How long these took together, in microseconds.
    pub remote_us: u64,
    /// Accesses that waited for the key or a copy of it, which was on its way.
    pub waited: u32,
    /// How long these waited together, in microseconds.
    pub waited_us: u64,
    /// Accesses of a node that had asked for the key, which was gone again.
    pub conflicts: u32,
    /// Intents that began at a node.
    pub intents: u32,
}

/// The number by which keys are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Relocations.
    Relocations,
    /// Replicas that were set up.
    Replicas,
    /// Remote accesses.
    Remote,
    /// Time of remote accesses and waits.
    Waiting,
    /// Conflicts.
    Conflicts,
}

/// Where the keys of a run were, over time.
///
/// It is built in one pass over the events. It keeps the changes of all keys (10 bytes each) and an index of
/// the events by key (4 bytes each), so that questions about a key or a moment do not read the other events.
#[derive(Debug)]
pub struct Allocation {
    run: Arc<Run>,
    /// The selected keys.
    keys: Keys,
    /// The selected keys that have events, in ascending order.
    active: Vec<u64>,
    /// By active key, the position of its first event in `events`; one more entry at the end.
    start: Vec<u32>,
    /// Positions of events in the run, by key and time.
    events: Vec<u32>,
    pub(crate) owners: Track,
    pub(crate) replicas: Track,
    pub(crate) intents: Track,
    /// By active key.
    counts: Vec<KeyCounts>,
    /// Positions in the run of events about accesses that waited, by key and time.
    waits: Vec<u32>,
    inconsistencies: Inconsistencies,
}

impl Allocation {
    /// Computes where the traced keys of the run were. `view` selects among these keys.
    #[must_use]
    pub fn of(run: &Arc<Run>, view: &Filter) -> Self {
        let (active, start, events) = index(run.records(), view);
        let keys = match run.layout() {
            Some(_) => Keys::of_model(run.header().keys(), [run.filter(), view], &active),
            None => Keys::of_list(&active),
        };
        let mut allocation = Self {
            run: Arc::clone(run),
            keys,
            owners: Track::default(),
            replicas: Track::default(),
            intents: Track::default(),
            counts: Vec::with_capacity(active.len()),
            waits: Vec::new(),
            inconsistencies: Inconsistencies::default(),
            active,
            start,
            events,
        };
        allocation.replay();
        allocation
    }

    fn replay(&mut self) {
        let run = Arc::clone(&self.run);
        let mut replay = Replay::new(None);
        for (at, key) in self.active.iter().enumerate() {
            replay.start(run.home(*key));
            self.owners.next_key();
            self.replicas.next_key();
            self.intents.next_key();
            let mut counts = KeyCounts { key: *key, ..KeyCounts::default() };
            let events = &self.events[self.start[at] as usize..self.start[at + 1] as usize];
            for position in events {
                let record = run.records()[*position as usize];
                let Some(event) = record.event() else { continue };
                if record.kind == REMOTE || record.kind == WAITED {
                    self.waits.push(*position);
                }
                counts.hear(&event.what);
                let change = replay.hear(record.node, &event.what);
                if let Some(place) = change.place {
                    self.owners.push(record.at, owner_code(place));
                }
                if let Some(replica) = change.replica {
                    self.replicas.push(record.at, switch_code(replica));
                }
                if let Some(intent) = change.intent {
                    self.intents.push(record.at, switch_code(intent));
                }
            }
            self.counts.push(counts);
        }
        self.owners.end();
        self.replicas.end();
        self.intents.end();
        self.inconsistencies = replay.inconsistencies;
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// The selected keys, including those without events.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The selected keys that have events, in ascending order.
    #[must_use]
    pub fn active(&self) -> &[u64] {
        &self.active
    }

    /// Events that contradict each other.
    #[must_use]
    pub fn inconsistencies(&self) -> &Inconsistencies {
        &self.inconsistencies
    }

    /// The counts of the keys that have events, in the order of keys.
    #[must_use]
    pub fn counts(&self) -> &[KeyCounts] {
        &self.counts
    }

    /// The counts of a key.
    #[must_use]
    pub fn counts_of(&self, key: u64) -> KeyCounts {
        self.position(key).map_or(KeyCounts { key, ..KeyCounts::default() }, |at| self.counts[at])
    }

    /// The `count` keys with the largest numbers of `by`, in descending order of that number. Ties are in
    /// ascending order of key. Keys whose number is 0 are left out.
    #[must_use]
    pub fn top(&self, by: By, count: usize) -> Vec<KeyCounts> {
        let value = |counts: &KeyCounts| match by {
            By::Relocations => u64::from(counts.relocations),
            By::Replicas => u64::from(counts.replicas),
            By::Remote => u64::from(counts.remote),
            By::Waiting => counts.remote_us.saturating_add(counts.waited_us),
            By::Conflicts => u64::from(counts.conflicts),
        };
        let mut found: Vec<(u64, KeyCounts)> = self
            .counts
            .iter()
            .map(|counts| (value(counts), *counts))
            .filter(|(value, _)| *value > 0)
            .collect();
        let order = |(value, counts): &(u64, KeyCounts)| (std::cmp::Reverse(*value), counts.key);
        if count < found.len() && count > 0 {
            found.select_nth_unstable_by_key(count, order);
        }
        found.truncate(count);
        found.sort_unstable_by_key(order);
        found.into_iter().map(|(_, counts)| counts).collect()
    }

    /// Where the main copy of a key was at a time (after the events of that microsecond).
    #[must_use]
    pub fn place_at(&self, key: u64, at_us: u64) -> Place {
        let home = || self.run.home(key).map_or(Place::Unknown, |node| Place::At { node });
        let Some(position) = self.position(key) else { return home() };
        let (times, codes) = self.owners.of(position);
        let after = times.partition_point(|time| *time <= at_us);
        let Some(last) = after.checked_sub(1) else { return home() };
        match owner_of(codes[last]) {
            Some(node) => Place::At { node },
            // The track does not say between which nodes a key moves, so its events are replayed. This is
            // rarely asked for.
            None => {
                let mut replay = Replay::new(self.run.home(key));
                for event in self.stamped_of(key).take_while(|event| event.at_us <= at_us) {
                    replay.hear(event.node.0, &event.what);
                }
                replay.place
            }
        }
    }

    /// The nodes that held a replica of a key at a time, in ascending order. For a key that is replicated
    /// throughout, these are all nodes except its owner.
    #[must_use]
    pub fn replicas_at(&self, key: u64, at_us: u64) -> Vec<u16> {
        if self.run.is_static_replica(key) {
            let owner = self.run.home(key);
            return (0..self.run.header().nodes).filter(|node| Some(*node) != owner).collect();
        }
        self.switched_on(&self.replicas, key, at_us)
    }

    /// The nodes that had active intent for a key at a time, in ascending order.
    #[must_use]
    pub fn intents_at(&self, key: u64, at_us: u64) -> Vec<u16> {
        self.switched_on(&self.intents, key, at_us)
    }

    fn switched_on(&self, track: &Track, key: u64, at_us: u64) -> Vec<u16> {
        let Some(position) = self.position(key) else { return Vec::new() };
        let (times, codes) = track.of(position);
        let mut nodes = Vec::new();
        for code in codes.iter().take(times.partition_point(|time| *time <= at_us)) {
            let (node, is_on) = switch_of(*code);
            match nodes.binary_search(&node) {
                Ok(at) if !is_on => {
                    nodes.remove(at);
                }
                Err(at) if is_on => nodes.insert(at, node),
                Ok(_) | Err(_) => {}
            }
        }
        nodes
    }

    /// The owners and the numbers of replicas of many keys at a time, from which a replay is drawn.
    #[must_use]
    pub fn moment(&self, keys: &[u64], at_us: u64) -> Moment {
        let nodes = u32::from(self.run.header().nodes);
        let mut moment = Moment { at_us, owners: Vec::new(), replicas: Vec::new() };
        for key in keys {
            let position = self.position(*key);
            let code = position.and_then(|position| self.owners.code_at(position, at_us));
            let owner = code.map_or_else(|| self.run.home(*key), owner_of);
            moment.owners.push(owner.map_or(-1, i32::from));
            moment.replicas.push(if self.run.is_static_replica(*key) {
                nodes.saturating_sub(1)
            } else {
                position.map_or(0, |position| {
                    let (times, codes) = self.replicas.of(position);
                    let until = times.partition_point(|time| *time <= at_us);
                    let on = codes[..until].iter().filter(|code| switch_of(**code).1).count();
                    (on - (until - on)) as u32
                })
            });
        }
        moment
    }

    /// The events of a key, by time.
    pub fn events_of(&self, key: u64) -> impl DoubleEndedIterator<Item = Stamped> + '_ {
        self.stamped_of(key)
    }

    fn stamped_of(&self, key: u64) -> impl DoubleEndedIterator<Item = Stamped> + '_ {
        self.positions_of(key).iter().filter_map(|event| stamped(self.run.records()[*event as usize]))
    }

    /// The positions of the events of a key in the run, by time.
    #[must_use]
    pub fn positions_of(&self, key: u64) -> &[u32] {
        self.position(key)
            .map_or(&[], |at| &self.events[self.start[at] as usize..self.start[at + 1] as usize])
    }

    /// The positions in the run of events about accesses that waited, by key and time.
    pub(crate) fn waits(&self) -> &[u32] {
        &self.waits
    }

    /// The position of a key among those with events.
    pub(crate) fn position(&self, key: u64) -> Option<usize> {
        self.active.binary_search(&key).ok()
    }
}

impl KeyCounts {
    fn hear(&mut self, what: &What) {
        #[expect(clippy::wildcard_enum_match_arm, reason = "other events are not counted by key")]
        match what {
            What::Arrived { .. } => self.relocations += 1,
            What::ReplicaSetUp => self.replicas += 1,
            What::Conflict => self.conflicts += 1,
            What::IntentBegan => self.intents += 1,
            What::Remote { after, .. } => {
                self.remote += 1;
                self.remote_us = self.remote_us.saturating_add(*after);
            }
            What::Waited { after, .. } => {
                self.waited += 1;
                self.waited_us = self.waited_us.saturating_add(*after);
            }
            _ => {}
        }
    }
}

/// Owners and replicas of many keys at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// The moment, in microseconds of the run's clock.
    pub at_us: u64,
    /// By key, the owner; -1 if the key is on its way or its owner is not known.
    pub owners: Vec<i32>,
    /// By key, the number of replicas.
    pub replicas: Vec<u32>,
}

/// Returns the keys with events in ascending order, the index of each key's first event in the list of
/// positions, and this list: the positions of all their events, by key.
fn index(records: &[Record], view: &Filter) -> (Vec<u64>, Vec<u32>, Vec<u32>) {
    let mut numbers: HashMap<u64, u32, foldhash::fast::FixedState> = HashMap::default();
    let (mut keys, mut counts, mut ids) = (Vec::new(), Vec::<u32>::new(), Vec::with_capacity(records.len()));
    for record in records {
        let mut id = u32::MAX;
        if record.key != NO_KEY {
            id = *numbers.entry(record.key).or_insert_with(|| {
                // Keys that are not selected are remembered as such.
                if !view.accepts(Key(record.key)) {
                    return u32::MAX;
                }
                keys.push(record.key);
                counts.push(0);
                counts.len() as u32 - 1
            });
        }
        if let Some(count) = counts.get_mut(id as usize) {
            *count += 1;
        }
        ids.push(id);
    }
    drop(numbers);
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_unstable_by_key(|id| keys[*id as usize]);
    let (mut start, mut total) = (Vec::with_capacity(keys.len() + 1), 0);
    // From here on, `counts` holds the index at which the next event of a key is stored.
    for id in &order {
        start.push(total);
        total += std::mem::replace(&mut counts[*id as usize], total);
    }
    start.push(total);
    let mut events = vec![0; total as usize];
    for (at, id) in ids.into_iter().enumerate() {
        if let Some(next) = counts.get_mut(id as usize) {
            events[*next as usize] = at as u32;
            *next += 1;
        }
    }
    (order.iter().map(|id| keys[*id as usize]).collect(), start, events)
}
