//! Ownership: a key has one owner or one transfer at a time, and every hand-over continues the one before it.
//!
//! The ledger follows from messages alone: which node has a key's value or receives it next, with which
//! relocation counter, and, where the home decides, the owners after that. Other checks compare the state of
//! nodes with it. Keys that never moved have no history.

use hashbrown::HashMap;
use intendant_core::{Key, Layout, NodeId};
use intendant_sim::Finding;
use std::collections::VecDeque;
use std::sync::Arc;

/// Past owners that a history keeps; what nodes know is rarely older.
const PAST_MAX: usize = 64;

/// Where the main copy of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The node that has it or receives it.
    pub(crate) node: NodeId,
    /// Its relocation counter at that node.
    pub(crate) counter: u32,
    /// Whether it is in flight.
    pub(crate) in_flight: bool,
}

/// The owners of a key.
struct OwnerHistory {
    /// Successive owners, including those already decided.
    owners: VecDeque<NodeId>,
    /// The counter of the first entry of `owners`.
    first: u32,
    /// The counter of the owner that has the value or receives it.
    now: u32,
    in_flight: bool,
    /// Per node, the number of arrivals that it waits for.
    awaited: Box<[u32]>,
}

impl OwnerHistory {
    fn owner(&self, counter: u32) -> Option<NodeId> {
        self.owners.get(counter.checked_sub(self.first)? as usize).copied()
    }

    fn last(&self) -> u32 {
        self.first + self.owners.len() as u32 - 1
    }

    fn forget_past(&mut self) {
        while (self.now - self.first) as usize > PAST_MAX {
            self.owners.pop_front();
            self.first += 1;
        }
    }
}

/// The owner histories of all keys.
pub(crate) struct Ledger {
    layout: Arc<Layout>,
    histories: HashMap<Key, OwnerHistory, foldhash::fast::FixedState>,
    /// By station: the number of keys that it waits for.
    awaited: Vec<usize>,
    arrivals: u64,
    /// Arrivals that the new owner had requested.
    expected: u64,
}

impl Ledger {
    pub(crate) fn new(layout: &Arc<Layout>) -> Self {
        let stations = layout.nodes() * layout.channels();
        let awaited = vec![0; stations];
        Self { layout: Arc::clone(layout), histories: HashMap::default(), awaited, arrivals: 0, expected: 0 }
    }

    fn history(&mut self, key: Key) -> &mut OwnerHistory {
        let Self { layout, histories, .. } = self;
        histories.entry(key).or_insert_with(|| OwnerHistory {
            owners: VecDeque::from([layout.home(key)]),
            first: 0,
            now: 0,
            in_flight: false,
            awaited: vec![0; layout.nodes()].into(),
        })
    }

    /// Where the main copy of `key` is.
    pub(crate) fn place(&self, key: Key) -> Place {
        match self.histories.get(&key) {
            None => Place { node: self.layout.home(key), counter: 0, in_flight: false },
            Some(history) => {
                let node = history.owner(history.now).expect("a history has the present owner");
                Place { node, counter: history.now, in_flight: history.in_flight }
            }
        }
    }

    /// The counter after all relocations that have been decided.
    pub(crate) fn last(&self, key: Key) -> u32 {
        self.histories.get(&key).map_or(0, OwnerHistory::last)
    }

    /// The past, present or future owner with this counter; `None` if the history no longer has it or it is
    /// not decided.
    pub(crate) fn owner(&self, key: Key, counter: u32) -> Option<NodeId> {
        match self.histories.get(&key) {
            None => (counter == 0).then(|| self.layout.home(key)),
            Some(history) => history.owner(counter),
        }
    }

    /// Whether the history no longer has the owner of `counter`.
    pub(crate) fn is_forgotten(&self, key: Key, counter: u32) -> bool {
        self.histories.get(&key).is_some_and(|history| counter < history.first)
    }

    /// Number of arrivals of `key` that a node waits for.
    pub(crate) fn awaited(&self, key: Key, node: NodeId) -> u32 {
        self.histories.get(&key).map_or(0, |history| history.awaited[node.index()])
    }

    /// Number of keys that a channel waits for.
    pub(crate) fn awaited_by(&self, station: usize) -> usize {
        self.awaited[station]
    }

    fn station(&self, key: Key, node: NodeId) -> usize {
        node.index() * self.layout.channels() + self.layout.channel(key).index()
    }

    /// `node` requests the key from its home (possibly itself).
    pub(crate) fn requested(&mut self, key: Key, node: NodeId) {
        let station = self.station(key, node);
        let awaited = &mut self.history(key).awaited[node.index()];
        *awaited += 1;
        if *awaited == 1 {
            self.awaited[station] += 1;
        }
    }

    /// The home decides that the key moves to `to` after all earlier decisions. Returns the key's counter
    /// there.
    pub(crate) fn ordered(&mut self, key: Key, to: NodeId) -> u32 {
        let history = self.history(key);
        history.owners.push_back(to);
        history.last()
    }

    /// Checks that `from` hands the key over to `to`. `decides`: the owner itself has decided this.
    pub(crate) fn departed(
        &mut self,
        key: Key,
        from: NodeId,
        to: NodeId,
        counter: u32,
        decides: bool,
    ) -> Result<(), Finding> {
        let place = self.place(key);
        let history = self.history(key);
        let finding = |what: String| {
            let claim = format!("node {from} hands {key:?} over to node {to} with counter {counter}");
            Err(("ledger", format!("{claim}, but {what}")))
        };
        if place.in_flight || place.node != from {
            return finding(format!("the key is at {place:?}"));
        }
        if counter != place.counter + 1 {
            return finding(format!("its counter was {}", place.counter));
        }
        if decides {
            history.owners.push_back(to);
        }
        match history.owner(counter) {
            Some(next) if next == to => {}
            Some(next) => return finding(format!("its home decided that node {next} gets this counter")),
            None => return finding("no home or owner decided that".to_owned()),
        }
        (history.now, history.in_flight) = (counter, true);
        history.forget_past();
        Ok(())
    }

    /// Checks the arrival of the key at `to`.
    pub(crate) fn arrived(&mut self, key: Key, to: NodeId, counter: u32) -> Result<(), Finding> {
        let (place, station) = (self.place(key), self.station(key, to));
        if place != (Place { node: to, counter, in_flight: true }) {
            let claim = format!("{key:?} arrives at node {to} with counter {counter}");
            return Err(("ledger", format!("{claim}, but is at {place:?}")));
        }
        self.arrivals += 1;
        let history = self.history(key);
        history.in_flight = false;
        if let Some(left) = history.awaited[to.index()].checked_sub(1) {
            history.awaited[to.index()] = left;
            self.expected += 1;
            self.awaited[station] -= usize::from(left == 0);
        }
        Ok(())
    }

    /// Checks the counters of nodes at rest: all relocations, and those timed because the new owner had
    /// requested them.
    pub(crate) fn counted(&self, relocations: u64, timed: u64) -> Result<(), Finding> {
        if relocations == self.arrivals && timed == self.expected {
            return Ok(());
        }
        let Self { arrivals, expected, .. } = self;
        let counted = format!("nodes counted {relocations} relocations and timed {timed}");
        Err(("ledger", format!("{counted}; there were {arrivals}, of which {expected} requested")))
    }

    /// Checks at rest that the key is not in flight and that all decided relocations have happened.
    pub(crate) fn settled(&self, key: Key) -> Result<(), Finding> {
        let place = self.place(key);
        if !place.in_flight && place.counter == self.last(key) {
            return Ok(());
        }
        let last = self.last(key);
        Err(("ledger", format!("the cluster rests, but {key:?} is still to reach counter {last}: {place:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: Key = Key(0);
    const HOME: NodeId = NodeId(0);
    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn ledger() -> Ledger {
        let order = intendant_core::KeyOrder::Range;
        Ledger::new(&Arc::new(Layout::builder().range("k", 3, 1).nodes(3).order(order).build().unwrap()))
    }

    #[test]
    fn hand_overs_follow_each_other() {
        let mut ledger = ledger();
        ledger.requested(K, A);
        assert_eq!((ledger.ordered(K, A), ledger.ordered(K, B)), (1, 2));
        assert!(ledger.departed(K, A, B, 2, false).is_err(), "it is not there yet");
        assert!(ledger.departed(K, HOME, B, 1, false).is_err(), "A was first");
        assert!(ledger.departed(K, HOME, A, 2, false).is_err(), "a counter is left out");
        assert_eq!(ledger.departed(K, HOME, A, 1, false), Ok(()));
        assert!(ledger.departed(K, HOME, A, 1, false).is_err(), "it is gone");
        assert!(ledger.arrived(K, B, 1).is_err(), "another node's");
        assert_eq!((ledger.awaited(K, A), ledger.awaited_by(1)), (1, 1));
        assert_eq!(ledger.arrived(K, A, 1), Ok(()));
        assert_eq!((ledger.awaited(K, A), ledger.awaited_by(1)), (0, 0));
        assert!(ledger.arrived(K, A, 1).is_err(), "twice");
        assert!(ledger.settled(K).is_err(), "B is to have it");
        assert_eq!(ledger.departed(K, A, B, 2, false).and_then(|()| ledger.arrived(K, B, 2)), Ok(()));
        assert_eq!(ledger.settled(K), Ok(()));
        assert_eq!([0, 1, 2, 3].map(|c| ledger.owner(K, c)), [Some(HOME), Some(A), Some(B), None]);
    }

    #[test]
    fn owners_may_decide_and_the_past_fades() {
        let mut ledger = ledger();
        for counter in 1..=200 {
            let (from, to) = if counter % 2 == 1 { (HOME, A) } else { (A, HOME) };
            assert_eq!(ledger.departed(K, from, to, counter, true), Ok(()));
            assert_eq!(ledger.arrived(K, to, counter), Ok(()));
        }
        assert_eq!((ledger.owner(K, 199), ledger.owner(K, 3)), (Some(A), None));
        assert!(ledger.is_forgotten(K, 3) && !ledger.is_forgotten(K, 201));
        assert_eq!(ledger.settled(K), Ok(()));
    }
}
