//! Replicas through the owner: every delta is merged exactly once, in order, and a version is the name of one
//! value.
//!
//! A book that is kept from messages alone: what holders asked for and sent, what owners registered, merged
//! and told. An owner that hands a key over tells the next one all of it. What became of the values
//! themselves is seen when the cluster rests ([`super::copies`]) and in what workers read.

use super::{Finding, echo};
use hashbrown::HashMap;
use intendant_core::{Key, NodeId};
use intendant_wire::{HolderRow, ReplicaUpdateKind};
use std::collections::{BTreeMap, BTreeSet};

type Hash = foldhash::fast::FixedState;

/// A holder, as its owner must know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration {
    generation: u32,
    /// Number of the last merged delta.
    merged: u32,
    pub(crate) echo: echo::Account,
}

/// A key with holders.
#[derive(Default)]
struct Record {
    holders: BTreeMap<NodeId, Registration>,
    /// The newest version that anybody was told, and a hash of its value if that was told too.
    newest: Option<(u32, Option<u64>)>,
}

/// What a holder did.
#[derive(Debug, Default)]
struct Copy {
    generation: u32,
    /// The clocks that it asked for.
    needs: BTreeSet<u32>,
    /// Number of its last delta of the generation.
    sent: u32,
    flying: bool,
    /// Whether the main copy has come to it since.
    over: bool,
}

/// What an owner tells a holder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) key: Key,
    pub(crate) to: NodeId,
    pub(crate) kind: ReplicaUpdateKind,
    pub(crate) generation: u32,
    pub(crate) seq: u32,
    pub(crate) version: u32,
    /// Of the value, if there is one.
    pub(crate) value: Option<u64>,
}

/// What a registration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    New,
    Again,
    Stale,
}

/// What becomes of the copy of a node to which the main copy comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promoted {
    /// It had none, or none that the owner knew of.
    Nothing,
    /// No delta was in flight.
    Bare,
    /// The owner had merged the delta in flight.
    Merged,
    /// It had not.
    Unmerged,
}

/// The book.
#[derive(Default)]
pub(crate) struct Merged {
    records: HashMap<Key, Record, Hash>,
    copies: HashMap<(Key, NodeId), Copy, Hash>,
    /// Holders whose delta the current input merged, and who must be told.
    due: Vec<(Key, NodeId)>,
    /// Holders from whom the current input is a question.
    asking: Vec<(Key, NodeId)>,
}

fn wrong<T>(what: String) -> Result<T, Finding> {
    Err(("merged", what))
}

impl Merged {
    /// A holder asks for a copy. Returns whether under a new generation.
    pub(crate) fn asks(
        &mut self,
        key: Key,
        node: NodeId,
        generation: u32,
        need: u32,
    ) -> Result<bool, Finding> {
        let copy = self.copies.entry((key, node)).or_default();
        if generation == copy.generation && !copy.over && need > 0 && copy.needs.insert(need) {
            return Ok(false);
        }
        if generation <= copy.generation {
            return wrong(format!(
                "{node:?} asks for {key:?} under generation {generation} as of clock {need}, and had {copy:?}"
            ));
        }
        if copy.flying && !copy.over {
            return wrong(format!("{node:?} asks for {key:?} anew, while a delta is in flight: {copy:?}"));
        }
        *copy = Copy { generation, needs: BTreeSet::from([need]), ..Copy::default() };
        Ok(true)
    }

    /// A holder sends a delta.
    pub(crate) fn sends(
        &mut self,
        key: Key,
        node: NodeId,
        generation: u32,
        number: u32,
    ) -> Result<(), Finding> {
        let copy = self.copies.entry((key, node)).or_default();
        if generation != copy.generation || number != copy.sent + 1 || copy.flying || copy.over {
            return wrong(format!(
                "{node:?} sends delta {number} of generation {generation} of {key:?}, after {copy:?}"
            ));
        }
        (copy.sent, copy.flying) = (number, true);
        Ok(())
    }

    /// A holder gives a copy up, or refuses one that it does not want.
    pub(crate) fn leaves(&mut self, key: Key, node: NodeId, generation: u32) -> Result<(), Finding> {
        let copy = self.copies.entry((key, node)).or_default();
        if generation > copy.generation || (generation == copy.generation && copy.flying && !copy.over) {
            return wrong(format!("{node:?} gives up generation {generation} of {key:?}, with {copy:?}"));
        }
        Ok(())
    }

    /// The generation under which a node holds or asks for a copy.
    pub(crate) fn generation(&self, key: Key, node: NodeId) -> Option<u32> {
        self.copies.get(&(key, node)).filter(|copy| !copy.over).map(|copy| copy.generation)
    }

    /// A holder is told something.
    pub(crate) fn hears(&mut self, key: Key, node: NodeId, generation: u32, seq: u32) {
        if let Some(copy) = self.copies.get_mut(&(key, node))
            && copy.generation == generation
            && copy.sent == seq
        {
            copy.flying = false;
        }
    }

    /// The owner hears that a node wants a copy.
    pub(crate) fn registers(&mut self, key: Key, node: NodeId, generation: u32, need: u32) -> Asked {
        self.asking.push((key, node));
        let holders = &mut self.records.entry(key).or_default().holders;
        match holders.get_mut(&node) {
            Some(known) if known.generation == generation => {
                known.echo.asked(need);
                return Asked::Again;
            }
            Some(known) if known.generation > generation => return Asked::Stale,
            Some(_) | None => {}
        }
        let mut new = Registration { generation, merged: 0, echo: echo::Account::default() };
        new.echo.asked(need);
        holders.insert(node, new);
        Asked::New
    }

    /// The owner hears a delta. Returns whether it must merge it; if not, it is a ghost.
    pub(crate) fn merges(&mut self, key: Key, node: NodeId, generation: u32, number: u32) -> bool {
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

    /// The owner hears that a node gives its copy up.
    pub(crate) fn releases(&mut self, key: Key, node: NodeId, generation: u32) {
        let Some(record) = self.records.get_mut(&key) else { return };
        if record.holders.get(&node).is_some_and(|known| known.generation == generation) {
            record.holders.remove(&node);
        }
        if record.holders.is_empty() {
            self.records.remove(&key);
        }
    }

    /// The owner tells a holder something. What is told about one key must come here by ascending version.
    pub(crate) fn tells(&mut self, told: Told) -> Result<(), Finding> {
        let Told { key, to, kind, generation, seq, version, value } = told;
        if kind == ReplicaUpdateKind::Dropped {
            return Ok(());
        }
        let record = self.records.get_mut(&key);
        let Some(record) = record.filter(|record| record.holders.contains_key(&to)) else {
            return wrong(format!("{to:?}, which is not registered, is told {told:?}"));
        };
        let known = record.holders.get_mut(&to).expect("looked up right above");
        if (generation, seq) != (known.generation, known.merged) {
            return wrong(format!("{to:?} is told {told:?}; what it is registered with is {known:?}"));
        }
        let newest = record.newest;
        match newest {
            Some((newest, _)) if version < newest => {
                return wrong(format!("version {newest} of {key:?} is known already: {told:?}"));
            }
            Some((newest, Some(before)))
                if version == newest && value.is_some_and(|value| value != before) =>
            {
                return wrong(format!("version {version} of {key:?} names two values: {told:?}"));
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
        known.echo.told(kind, version).map_err(|what| ("echo", format!("{told:?}: {what}")))
    }

    /// The input has been handled.
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

    /// The owner hands the key over, and these are the holders that it tells the next owner.
    pub(crate) fn departs<'a>(
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
                    return wrong(format!("{key:?} is handed over with {row:?}; known is {newest:?}"));
                }
                // The next owner does not know what arrived of it.
                holder.echo = echo::Account::default();
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

    /// The key comes to `to`.
    pub(crate) fn arrives(&mut self, key: Key, to: NodeId) -> Promoted {
        let known = self.records.get_mut(&key).and_then(|record| record.holders.remove(&to));
        if self.records.get(&key).is_some_and(|record| record.holders.is_empty()) {
            self.records.remove(&key);
        }
        let Some(copy) = self.copies.get_mut(&(key, to)).filter(|copy| !copy.over) else {
            return Promoted::Nothing;
        };
        copy.over = true;
        match known.filter(|known| known.generation == copy.generation) {
            _ if !copy.flying => Promoted::Bare,
            Some(known) if known.merged == copy.sent => Promoted::Merged,
            Some(_) | None => Promoted::Unmerged,
        }
    }

    /// At rest: a holder that is registered so has sent nothing that was not merged.
    pub(crate) fn settled(&self, key: Key, node: NodeId, generation: u32, seq: u32) -> Result<(), Finding> {
        let copy = self.copies.get(&(key, node));
        match copy {
            Some(copy) if (copy.generation, copy.sent, copy.over) == (generation, seq, false) => Ok(()),
            _ => wrong(format!(
                "{node:?} is registered for {key:?} with generation {generation} and delta {seq}, and has {copy:?}"
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

    fn told(
        to: NodeId,
        kind: ReplicaUpdateKind,
        generation: u32,
        seq: u32,
        version: u32,
        value: u64,
    ) -> Told {
        let value = matches!(kind, ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh).then_some(value);
        Told { key: K, to, kind, generation, seq, version, value }
    }

    /// A and B hold copies at version 3.
    fn two() -> Merged {
        let mut book = Merged::default();
        for node in [A, B] {
            assert_eq!(book.asks(K, node, 1, 0), Ok(true));
            assert_eq!(book.registers(K, node, 1, 0), Asked::New);
            assert_eq!(book.tells(told(node, ReplicaUpdateKind::SetUp, 1, 0, 3, 33)), Ok(()));
        }
        book
    }

    #[test]
    fn deltas_are_merged_once_and_answered() {
        let mut book = two();
        assert_eq!(book.sends(K, A, 1, 1), Ok(()));
        assert!(book.sends(K, A, 1, 2).is_err(), "one is in flight");
        assert!(book.merges(K, A, 1, 1));
        assert!(!book.merges(K, A, 1, 1), "again");
        assert!(book.handled().is_err(), "not answered");
        assert!(book.merges(K, B, 1, 1));
        assert!(
            book.tells(told(B, ReplicaUpdateKind::Acknowledged, 1, 1, 3, 0)).is_err(),
            "the version stands"
        );
    }

    #[test]
    fn a_version_names_one_value() {
        let mut book = two();
        assert!(book.tells(told(A, ReplicaUpdateKind::Refresh, 1, 0, 2, 22)).is_err(), "older");
        assert_eq!(book.tells(told(A, ReplicaUpdateKind::Refresh, 1, 0, 4, 44)), Ok(()));
        assert!(book.tells(told(B, ReplicaUpdateKind::Refresh, 1, 0, 4, 45)).is_err(), "another value");
        let mut book = two();
        assert!(book.tells(told(A, ReplicaUpdateKind::Refresh, 1, 1, 4, 44)).is_err(), "nothing was merged");
        assert!(book.tells(told(A, ReplicaUpdateKind::Refresh, 2, 0, 4, 44)).is_err(), "another generation");
    }

    #[test]
    fn registrations_travel_with_the_key() {
        let row = |node, generation, seq| HolderRow { at: 0, version: 3, node, generation, seq };
        let depart = |rows: &[HolderRow]| two().departs(K, rows.iter());
        assert_eq!(depart(&[row(A, 1, 0), row(B, 1, 0)]), Ok(()));
        assert!(depart(&[row(A, 1, 0)]).is_err(), "B is forgotten");
        assert!(depart(&[]).is_err());
        assert!(depart(&[row(A, 1, 1), row(B, 1, 0)]).is_err(), "it was not merged");
        let mut book = two();
        book.sends(K, A, 1, 1).unwrap();
        book.departs(K, [row(A, 1, 0), row(B, 1, 0)].iter()).unwrap();
        assert_eq!(book.arrives(K, A), Promoted::Unmerged);
        assert!(!book.merges(K, A, 1, 1), "a ghost");
        assert!(book.asks(K, A, 1, 0).is_err(), "that generation is over");
        assert_eq!(book.settled(K, B, 1, 0), Ok(()));
        assert!(book.settled(K, A, 1, 1).is_err());
    }
}
