//! The holder's part of replication: replicas of keys that other nodes own. See the table in
//! [`intendant_techniques::replication`].
//!
//! [`Holder`] knows which replicas are held or asked for, and which of them are to stay. Its parts:
//! [`accesses`] of workers to replicas, [`sending`] of deltas and drops, [`updates`] from owners, and
//! [`requests`] to them.

mod accesses;
mod requests;
mod sending;
mod updates;

pub(crate) use requests::ask_owner;
pub(crate) use updates::{Update, carries_values, check_update};

use super::held::{Generations, Held, Urge};
use super::key_list::KeyList;
use super::pool::Pool;
use crate::channel::core::{Core, Hash};
use crate::channel::effects::Output;
use crate::key_table::KeyTable;
use crate::node::Shared;
use hashbrown::HashMap;
use intendant_core::{Element, Key};
use intendant_store::prefetch;
use intendant_techniques::replication::Stage;
use intendant_techniques::{Replicas, Role, SlotState};
use requests::ask;
use std::collections::BTreeSet;

/// How many keys ahead the bases of copies are prefetched: their records are in the cache by then.
const BASES_AHEAD: usize = 2;

/// Bytes of a cache line.
const LINE: usize = 64;

/// The replicas that this node holds of a channel's keys.
pub(crate) struct Holder<E> {
    held: KeyTable<Held<E>>,
    generations: Generations,
    /// Keys whose replicas have unsent updates. An entry is obsolete if the slot's dirty flag is clear.
    dirty: KeyList,
    /// By key, accesses of this node's workers that were sent away and are not answered. While there are any,
    /// the registration must not be dropped: the owner must send their effect to this node before it answers
    /// them.
    unanswered: HashMap<Key, usize, Hash>,
    /// Clocks and keys of replicas that are to be dropped when they are too old. An entry's clock may be
    /// older than the replica's; it is checked again when it comes up.
    aging: BTreeSet<(u32, Key)>,
    /// The value of an update, while it is processed.
    value: Vec<E>,
    /// Memory of replicas that were dropped, for new ones.
    pool: Pool<E>,
}

impl<E: Element> Holder<E> {
    /// No replicas.
    pub(crate) fn new(shared: &Shared<E>) -> Self {
        Self {
            held: KeyTable::new(shared.layout(), shared.is_lazy()),
            generations: Generations::default(),
            dirty: KeyList::default(),
            unanswered: HashMap::default(),
            aging: BTreeSet::new(),
            value: Vec::new(),
            pool: Pool::default(),
        }
    }

    /// Whether this node holds, or has asked for, a replica of `key`.
    pub(crate) fn holds(&self, key: Key) -> bool {
        self.held.contains(key)
    }

    /// Prefetches the records of the keys behind the one at `at`, and what their copies are based on.
    pub(crate) fn prefetch(&self, keys: &[Key], at: usize) {
        self.prefetch_records(keys, at);
        if let Some(held) = keys.get(at + BASES_AHEAD).and_then(|key| self.held.get(*key)) {
            held.replica.base().chunks(LINE / size_of::<E>()).for_each(|line| prefetch(line.as_ptr()));
        }
    }

    /// Prefetches the records of the keys behind the one at `at`, without values.
    #[inline]
    pub(crate) fn prefetch_records(&self, keys: &[Key], at: usize) {
        self.held.prefetch(keys, at);
    }

    /// Whether this node holds, or has asked for, any replica.
    pub(crate) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether the replica of `key`, held or asked for, is to stay; `None` if there is none.
    pub(crate) fn wants(&self, key: Key) -> Option<bool> {
        self.held.get(key).map(|held| held.wanted)
    }

    /// Number of replicas here that are not settled: the owner does not know of them yet, or lacks a
    /// remainder, or a delta or a drop is in flight.
    pub(crate) fn unsettled(&self, replicas: Option<Replicas>) -> usize {
        let unsettled = self
            .held
            .iter()
            .filter(|(_, held)| {
                let replica = &held.replica;
                replica.stage() != Stage::Held || replica.is_sending() || replica.has_remainder()
            })
            .count();
        // Under lazy replication a settled node holds none.
        if replicas == Some(Replicas::Lazy) { self.held.len() } else { unsettled }
    }

    /// A replica of `key` is wanted here, with all updates up to clock `need`. `state` is the key's slot.
    pub(crate) fn want(&mut self, core: &Core<E>, out: &mut Output, key: Key, state: &SlotState, need: u32) {
        let Some(held) = self.held.get_mut(key) else {
            let generation = self.generations.fresh();
            let held = Held::new(generation, core.now);
            self.held.insert(key, held).ask(need);
            return ask(core, out, key, state, generation, need);
        };
        held.wanted = true;
        if held.closed {
            return;
        }
        if held.replica.stage() == Stage::Dropping {
            self.revive(core, out, key, state, need);
        } else if held.ask(need) {
            ask(core, out, key, state, held.replica.generation(), need);
        }
    }

    fn revive(&mut self, core: &Core<E>, out: &mut Output, key: Key, state: &SlotState, need: u32) {
        let held = self.held.get_mut(key).expect("a dropped replica has a record");
        let generation = self.generations.after(held.replica.generation());
        held.replica.revive(generation);
        held.since = core.now;
        held.reached(u32::MAX);
        held.ask(need);
        ask(core, out, key, state, generation, need);
    }

    /// The replica of `key` is not wanted any more.
    pub(crate) fn unwant(&mut self, core: &Core<E>, out: &mut Output, key: Key) {
        if let Some(held) = self.held.get_mut(key) {
            held.wanted = false;
            self.end_if_due(core, out, key);
        }
    }

    /// Drops all replicas, and sends their unsent updates at once.
    pub(crate) fn unwant_all(&mut self, core: &Core<E>, out: &mut Output) {
        let mut keys: Vec<Key> = self.held.iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        for key in keys {
            self.unwant(core, out, key);
            self.carry_on(core, out, key, Urge::Updates);
        }
    }

    /// Drops replicas that are too old for readers that need `need`, under lazy replication.
    pub(crate) fn age(&mut self, core: &Core<E>, out: &mut Output, need: u32) {
        if core.policy().replicas != Some(Replicas::Lazy) {
            return;
        }
        while let Some((clock, key)) = self.aging.first().copied()
            && clock < need
        {
            self.aging.pop_first();
            let state = core.state(key);
            if state.role == Role::Replica && state.side < need {
                self.unwant(core, out, key);
            }
        }
    }
}
