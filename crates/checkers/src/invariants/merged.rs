//! Replicas: the owner merges every delta exactly once and in order, and a version names one value.
//!
//! The account follows from messages alone: what holders requested and sent, and what owners registered,
//! merged and sent. An owner that hands a key over passes all registrations on. The values themselves are
//! checked when the cluster rests ([`super::replicas`]) and by what workers read.

use super::echo;
use hashbrown::HashMap;
use intendant_core::{Key, NodeId};
use intendant_sim::Finding;
use intendant_wire::{HolderRow, ReplicaUpdateKind};
use std::collections::{BTreeMap, BTreeSet};

type Hash = foldhash::fast::FixedState;

/// A holder as its owner must have it registered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration {
    /// Generation of the replica: grows with each acquisition.
    generation: u32,
    /// Number of the last merged delta.
    merged: u32,
    pub(crate) echo: echo::Holder,
}

/// A key with holders.
#[derive(Default)]
struct KeyRecord {
    holders: BTreeMap<NodeId, Registration>,
    /// The newest version that the owner has sent, and a hash of its value if that was sent too.
    newest: Option<(u32, Option<u64>)>,
}

/// A holder's side: what it has requested and sent.
#[derive(Debug, Default)]
struct HolderRecord {
    generation: u32,
    /// The clocks that it requested.
    needs: BTreeSet<u32>,
    /// Number of its last delta in this generation.
    sent: u32,
    /// Whether a delta is unacknowledged.
    in_flight: bool,
    /// Whether the replica's value has arrived.
    is_set_up: bool,
    /// Whether the holder has asked to drop the replica.
    ends: bool,
    /// Whether the main copy has moved to the holder since, which ends the generation.
    over: bool,
}

/// An update that an owner sends to a holder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentUpdate {
    pub(crate) key: Key,
    pub(crate) to: NodeId,
    pub(crate) kind: ReplicaUpdateKind,
    pub(crate) generation: u32,
    pub(crate) seq: u32,
    pub(crate) version: u32,
    /// Hash of the value, if the update has one; in clusters that round values, of the rounded value.
    pub(crate) value: Option<u64>,
}

/// What a request does to a holder's registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    /// It begins a new generation.
    New,
    /// It repeats the registered generation.
    Again,
    /// It is of an older generation.
    Stale,
}

/// State of a node's replica when the main copy arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promoted {
    /// The node had none, or none that the owner knew of.
    NoReplica,
    /// No delta was in flight.
    NothingInFlight,
    /// The owner had merged the delta in flight.
    Merged,
    /// The owner had not merged the delta in flight.
    Unmerged,
}

/// The account of all replicas.
#[derive(Default)]
pub(crate) struct Merged {
    records: HashMap<Key, KeyRecord, Hash>,
    holder_records: HashMap<(Key, NodeId), HolderRecord, Hash>,
    /// Holders whose delta the current input merged, and which the owner must answer.
    due: Vec<(Key, NodeId)>,
    /// Holders whose request is the current input.
    asking: Vec<(Key, NodeId)>,
}

fn wrong<T>(what: String) -> Result<T, Finding> {
    Err(("merged", what))
}

impl Merged {
    /// Whether the replica that `node` has of `key` waits for a message of the owner: its value, or the
    /// answer to a delta or a drop.
    pub(crate) fn waits(&self, key: Key, node: NodeId) -> bool {
        let copy = self.holder_records.get(&(key, node));
        copy.is_none_or(|copy| !copy.is_set_up || copy.in_flight || copy.ends)
    }

    /// A holder sends a request for a replica at clock `need`. Returns whether it begins a new generation.
    pub(crate) fn ask_sent(
        &mut self,
        key: Key,
        node: NodeId,
        generation: u32,
        need: u32,
    ) -> Result<bool, Finding> {
        let copy = self.holder_records.entry((key, node)).or_default();
        if generation == copy.generation && !copy.over && need > 0 && copy.needs.insert(need) {
            return Ok(false);
        }
        if generation <= copy.generation {
            return wrong(format!(
                "{node:?} asks for {key:?} with generation {generation} at clock {need}, after {copy:?}"
            ));
        }
        if copy.in_flight && !copy.over {
            return wrong(format!("{node:?} asks for {key:?} again while a delta is in flight: {copy:?}"));
        }
        *copy = HolderRecord { generation, needs: BTreeSet::from([need]), ..HolderRecord::default() };
        Ok(true)
    }

    /// A holder sends a delta.
    pub(crate) fn delta_sent(
        &mut self,
        key: Key,
        node: NodeId,
        generation: u32,
        number: u32,
    ) -> Result<(), Finding> {
        let copy = self.holder_records.entry((key, node)).or_default();
        if generation != copy.generation || number != copy.sent + 1 || copy.in_flight || copy.over {
            return wrong(format!(
                "{node:?} sends delta {number} of generation {generation} of {key:?}, after {copy:?}"
            ));
        }
        (copy.sent, copy.in_flight) = (number, true);
        Ok(())
    }

    /// A holder drops its replica, or refuses one that it does not want.
    pub(crate) fn drop_sent(&mut self, key: Key, node: NodeId, generation: u32) -> Result<(), Finding> {
        let copy = self.holder_records.entry((key, node)).or_default();
        if generation > copy.generation || (generation == copy.generation && copy.in_flight && !copy.over) {
            return wrong(format!("{node:?} drops generation {generation} of {key:?}, after {copy:?}"));
        }
        copy.ends |= generation == copy.generation;
        Ok(())
    }

    /// The generation of the replica that a node holds or has requested.
    pub(crate) fn generation(&self, key: Key, node: NodeId) -> Option<u32> {
        self.holder_records.get(&(key, node)).filter(|copy| !copy.over).map(|copy| copy.generation)
    }

    /// A holder receives an update, which acknowledges delta `seq`.
    pub(crate) fn update_received(&mut self, key: Key, node: NodeId, generation: u32, seq: u32) {
        if let Some(copy) = self.holder_records.get_mut(&(key, node))
            && copy.generation == generation
        {
            copy.is_set_up = true;
            copy.in_flight &= copy.sent != seq;
        }
    }

    /// The owner receives a request for a replica.
    pub(crate) fn ask_received(&mut self, key: Key, node: NodeId, generation: u32, need: u32) -> Registered {
        self.asking.push((key, node));
        let holders = &mut self.records.entry(key).or_default().holders;
        match holders.get_mut(&node) {
            Some(known) if known.generation == generation => {
                known.echo.asked(need);
                return Registered::Again;
            }
            Some(known) if known.generation > generation => return Registered::Stale,
            Some(_) | None => {}
        }
        let mut new = Registration { generation, merged: 0, echo: echo::Holder::default() };
        new.echo.asked(need);
        holders.insert(node, new);
        Registered::New
    }

    /// The owner receives a delta. Returns whether it must merge it; it must ignore deltas of ended
    /// registrations.
    pub(crate) fn delta_received(&mut self, key: Key, node: NodeId, generation: u32, number: u32) -> bool {
        let Some(record) = self.records.get_mut(&key) else { return false };
        let Some(known) = record.holders.get_mut(&node).filter(|known| known.generation == generation) else {
            return false;
        };
        if number != known.merged + 1 {
            return false;
        }
        known.merged = number;
        known.echo.merged();
        self.due.push((key, node));
        true
    }

    /// The owner receives a holder's drop.
    pub(crate) fn drop_received(&mut self, key: Key, node: NodeId, generation: u32) {
        let Some(record) = self.records.get_mut(&key) else { return };
        if record.holders.get(&node).is_some_and(|known| known.generation == generation) {
            record.holders.remove(&node);
        }
        if record.holders.is_empty() {
            self.records.remove(&key);
        }
    }

    /// Checks an update that the owner sends. Updates of a key must be passed in ascending order of version.
    pub(crate) fn update_sent(&mut self, update: SentUpdate) -> Result<(), Finding> {
        let SentUpdate { key, to, kind, generation, seq, version, value } = update;
        if kind == ReplicaUpdateKind::Dropped {
            return Ok(());
        }
        let record = self.records.get_mut(&key);
        let Some(record) = record.filter(|record| record.holders.contains_key(&to)) else {
            return wrong(format!("{to:?} is not registered, and is sent {update:?}"));
        };
        let known = record.holders.get_mut(&to).expect("looked up right above");
        if (generation, seq) != (known.generation, known.merged) {
            return wrong(format!("{to:?} is sent {update:?}, and is registered with {known:?}"));
        }
        let newest = record.newest;
        match newest {
            Some((newest, _)) if version < newest => {
                return wrong(format!("version {newest} of {key:?} was sent before: {update:?}"));
            }
            Some((newest, Some(before)))
                if version == newest && value.is_some_and(|value| value != before) =>
            {
                return wrong(format!("version {version} of {key:?} names two values: {update:?}"));
            }
            Some((newest, before)) if version == newest => record.newest = Some((newest, before.or(value))),
            Some(_) | None => record.newest = Some((version, value)),
        }
        if let Some(at) = self.due.iter().position(|due| *due == (key, to)) {
            if newest.is_some_and(|(newest, _)| version == newest) {
                return wrong(format!("a delta was merged, and {key:?} still has version {version}"));
            }
            self.due.swap_remove(at);
        }
        known.echo.sent(kind, version).map_err(|what| ("echo", format!("{update:?}: {what}")))
    }

    /// The owner has handled the current input: every merged delta must have been answered.
    pub(crate) fn handled(&mut self) -> Result<(), Finding> {
        for (key, node) in self.asking.drain(..) {
            let record = self.records.get_mut(&key);
            if let Some(known) = record.and_then(|record| record.holders.get_mut(&node)) {
                known.echo.handled();
            }
        }
        match self.due.pop() {
            None => Ok(()),
            Some((key, node)) => wrong(format!("a delta of {node:?} for {key:?} was not answered")),
        }
    }

    /// Checks the registrations that an owner passes to the next owner with the key.
    pub(crate) fn handed_over<'a>(
        &mut self,
        key: Key,
        rows: impl Iterator<Item = &'a HolderRow>,
    ) -> Result<(), Finding> {
        let mut left = 0;
        let record = self.records.get_mut(&key);
        let known = record.as_ref().map_or(0, |record| record.holders.len());
        if let Some(record) = record {
            for row in rows {
                let holder = record.holders.get_mut(&row.node);
                let Some(holder) =
                    holder.filter(|known| (known.generation, known.merged) == (row.generation, row.seq))
                else {
                    let known = record.holders.get(&row.node);
                    return wrong(format!("{key:?} is handed over with {row:?}; registered is {known:?}"));
                };
                if record.newest.is_some_and(|(newest, _)| row.version < newest) {
                    let newest = record.newest;
                    return wrong(format!(
                        "{key:?} is handed over with {row:?}; the newest version is {newest:?}"
                    ));
                }
                // The next owner does not know what the holder has received.
                holder.echo = echo::Holder::default();
                left += 1;
            }
        } else if let Some(row) = rows.into_iter().next() {
            return wrong(format!("{key:?} has no holders, and is handed over with {row:?}"));
        }
        if left == known {
            return Ok(());
        }
        wrong(format!("{key:?} is handed over with {left} of its {known} holders"))
    }

    /// The key arrives at `to`, whose replica becomes the main copy.
    pub(crate) fn arrived(&mut self, key: Key, to: NodeId) -> Promoted {
        let known = self.records.get_mut(&key).and_then(|record| record.holders.remove(&to));
        if self.records.get(&key).is_some_and(|record| record.holders.is_empty()) {
            self.records.remove(&key);
        }
        let Some(copy) = self.holder_records.get_mut(&(key, to)).filter(|copy| !copy.over) else {
            return Promoted::NoReplica;
        };
        copy.over = true;
        match known.filter(|known| known.generation == copy.generation) {
            _ if !copy.in_flight => Promoted::NothingInFlight,
            Some(known) if known.merged == copy.sent => Promoted::Merged,
            Some(_) | None => Promoted::Unmerged,
        }
    }

    /// Checks a registration at rest: the owner has merged every delta that the holder sent.
    pub(crate) fn settled(&self, key: Key, node: NodeId, generation: u32, seq: u32) -> Result<(), Finding> {
        let copy = self.holder_records.get(&(key, node));
        match copy {
            Some(copy) if (copy.generation, copy.sent, copy.over) == (generation, seq, false) => Ok(()),
            _ => wrong(format!(
                "{node:?} is registered for {key:?} with generation {generation} and delta {seq}, but is at {copy:?}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: Key = Key(7);
    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn update(
        to: NodeId,
        kind: ReplicaUpdateKind,
        generation: u32,
        seq: u32,
        version: u32,
        value: u64,
    ) -> SentUpdate {
        let value = matches!(kind, ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh).then_some(value);
        SentUpdate { key: K, to, kind, generation, seq, version, value }
    }

    /// A and B hold copies at version 3.
    fn two() -> Merged {
        let mut merged = Merged::default();
        for node in [A, B] {
            assert_eq!(merged.ask_sent(K, node, 1, 0), Ok(true));
            assert_eq!(merged.ask_received(K, node, 1, 0), Registered::New);
            assert_eq!(merged.update_sent(update(node, ReplicaUpdateKind::SetUp, 1, 0, 3, 33)), Ok(()));
        }
        merged
    }

    #[test]
    fn deltas_are_merged_once_and_answered() {
        let mut merged = two();
        assert_eq!(merged.delta_sent(K, A, 1, 1), Ok(()));
        assert!(merged.delta_sent(K, A, 1, 2).is_err(), "one is in flight");
        assert!(merged.delta_received(K, A, 1, 1));
        assert!(!merged.delta_received(K, A, 1, 1), "again");
        assert!(merged.handled().is_err(), "not answered");
        assert!(merged.delta_received(K, B, 1, 1));
        assert!(
            merged.update_sent(update(B, ReplicaUpdateKind::Acknowledged, 1, 1, 3, 0)).is_err(),
            "the version stands"
        );
    }

    #[test]
    fn a_version_names_one_value() {
        let mut merged = two();
        assert!(merged.update_sent(update(A, ReplicaUpdateKind::Refresh, 1, 0, 2, 22)).is_err(), "older");
        assert_eq!(merged.update_sent(update(A, ReplicaUpdateKind::Refresh, 1, 0, 4, 44)), Ok(()));
        assert!(
            merged.update_sent(update(B, ReplicaUpdateKind::Refresh, 1, 0, 4, 45)).is_err(),
            "another value"
        );
        let mut merged = two();
        assert!(
            merged.update_sent(update(A, ReplicaUpdateKind::Refresh, 1, 1, 4, 44)).is_err(),
            "nothing was merged"
        );
        assert!(
            merged.update_sent(update(A, ReplicaUpdateKind::Refresh, 2, 0, 4, 44)).is_err(),
            "another generation"
        );
    }

    #[test]
    fn registrations_travel_with_the_key() {
        let row = |node, generation, seq| HolderRow { at: 0, version: 3, node, generation, seq };
        let depart = |rows: &[HolderRow]| two().handed_over(K, rows.iter());
        assert_eq!(depart(&[row(A, 1, 0), row(B, 1, 0)]), Ok(()));
        assert!(depart(&[row(A, 1, 0)]).is_err(), "B is forgotten");
        assert!(depart(&[]).is_err());
        assert!(depart(&[row(A, 1, 1), row(B, 1, 0)]).is_err(), "it was not merged");
        let mut merged = two();
        merged.delta_sent(K, A, 1, 1).unwrap();
        merged.handed_over(K, [row(A, 1, 0), row(B, 1, 0)].iter()).unwrap();
        assert_eq!(merged.arrived(K, A), Promoted::Unmerged);
        assert!(!merged.delta_received(K, A, 1, 1), "a ghost");
        assert!(merged.ask_sent(K, A, 1, 0).is_err(), "that generation is over");
        assert_eq!(merged.settled(K, B, 1, 0), Ok(()));
        assert!(merged.settled(K, A, 1, 1).is_err());
    }
}
