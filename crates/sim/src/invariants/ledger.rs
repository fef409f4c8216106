//! One owner or one transfer per key: every hand-over continues the one before it.
//!
//! A book that is kept from messages alone: who has a key's value or whom it is on its way to, with which
//! relocation counter, and, where the home decides, to whom it goes after that. Other checks compare what
//! nodes say with it. Only keys that ever moved have an account.

use super::Finding;
use hashbrown::HashMap;
use intendant_core::{Key, Layout, NodeId};
use std::collections::VecDeque;
use std::sync::Arc;

/// Past owners that an account remembers; what nodes know is rarely older.
const PAST_MAX: usize = 64;

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The node that has it, or that it is on its way to.
    pub(crate) node: NodeId,
    /// The relocation counter that belongs to that.
    pub(crate) counter: u32,
    /// Whether it is on its way.
    pub(crate) flying: bool,
}

struct Account {
    /// Owners one after the other, those to come included.
    owners: VecDeque<NodeId>,
    /// The counter of the first of them.
    first: u32,
    /// The counter of the one that has the value or gets it next.
    now: u32,
    flying: bool,
    /// Per node, how many arrivals it waits for.
    awaited: Box<[u32]>,
}

impl Account {
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

/// All accounts.
pub(crate) struct Ledger {
    layout: Arc<Layout>,
    accounts: HashMap<Key, Account, foldhash::fast::FixedState>,
    /// Per node and channel, the keys that are awaited.
    awaited: Vec<usize>,
    arrivals: u64,
    /// Of these, how many the new owner had asked for.
    expected: u64,
}

impl Ledger {
    pub(crate) fn new(layout: &Arc<Layout>) -> Self {
        let stations = layout.nodes() * layout.channels();
        let awaited = vec![0; stations];
        Self { layout: Arc::clone(layout), accounts: HashMap::default(), awaited, arrivals: 0, expected: 0 }
    }

    fn account(&mut self, key: Key) -> &mut Account {
        let Self { layout, accounts, .. } = self;
        accounts.entry(key).or_insert_with(|| Account {
            owners: VecDeque::from([layout.home(key)]),
            first: 0,
            now: 0,
            flying: false,
            awaited: vec![0; layout.nodes()].into(),
        })
    }

    /// Where the value of `key` is.
    pub(crate) fn place(&self, key: Key) -> Place {
        match self.accounts.get(&key) {
            None => Place { node: self.layout.home(key), counter: 0, flying: false },
            Some(account) => {
                let node = account.owner(account.now).expect("accounts remember the present");
                Place { node, counter: account.now, flying: account.flying }
            }
        }
    }

    /// The counter after all relocations that have been ordered.
    pub(crate) fn last(&self, key: Key) -> u32 {
        self.accounts.get(&key).map_or(0, Account::last)
    }

    /// Who had, has or will have the key when its counter is this; `None` if that is long ago or nothing is
    /// known of it.
    pub(crate) fn owner(&self, key: Key, counter: u32) -> Option<NodeId> {
        match self.accounts.get(&key) {
            None => (counter == 0).then(|| self.layout.home(key)),
            Some(account) => account.owner(counter),
        }
    }

    /// Whether the owner that `counter` belongs to is so long ago that the ledger has dropped it.
    pub(crate) fn is_long_ago(&self, key: Key, counter: u32) -> bool {
        self.accounts.get(&key).is_some_and(|account| counter < account.first)
    }

    /// How many arrivals of `key` a node waits for.
    pub(crate) fn awaited(&self, key: Key, node: NodeId) -> u32 {
        self.accounts.get(&key).map_or(0, |account| account.awaited[node.index()])
    }

    /// How many keys a channel of a node waits for.
    pub(crate) fn awaited_by(&self, station: usize) -> usize {
        self.awaited[station]
    }

    fn station(&self, key: Key, node: NodeId) -> usize {
        node.index() * self.layout.channels() + self.layout.channel(key).index()
    }

    /// `node` asks for the key, of its home or, if it is the home, of itself.
    pub(crate) fn asked(&mut self, key: Key, node: NodeId) {
        let station = self.station(key, node);
        let awaited = &mut self.account(key).awaited[node.index()];
        *awaited += 1;
        if *awaited == 1 {
            self.awaited[station] += 1;
        }
    }

    /// The home decides that the key goes to `to` next. Returns the counter it has then.
    pub(crate) fn ordered(&mut self, key: Key, to: NodeId) -> u32 {
        let account = self.account(key);
        account.owners.push_back(to);
        account.last()
    }

    /// `from` hands the key over. `decides` says that owners decide where to.
    pub(crate) fn departed(
        &mut self,
        key: Key,
        from: NodeId,
        to: NodeId,
        counter: u32,
        decides: bool,
    ) -> Result<(), Finding> {
        let place = self.place(key);
        let account = self.account(key);
        let finding = |what: String| {
            let claim = format!("node {from} hands {key:?} over to node {to} with counter {counter}");
            Err(("ledger", format!("{claim}, but {what}")))
        };
        if place.flying || place.node != from {
            return finding(format!("it is not there: {place:?}"));
        }
        if counter != place.counter + 1 {
            return finding(format!("its counter was {}", place.counter));
        }
        if decides {
            account.owners.push_back(to);
        }
        match account.owner(counter) {
            Some(next) if next == to => {}
            Some(next) => return finding(format!("its home decided that node {next} gets it then")),
            None => return finding("no home or owner decided that".to_owned()),
        }
        (account.now, account.flying) = (counter, true);
        account.forget_past();
        Ok(())
    }

    /// `to` takes the key in.
    pub(crate) fn arrived(&mut self, key: Key, to: NodeId, counter: u32) -> Result<(), Finding> {
        let (place, station) = (self.place(key), self.station(key, to));
        if place != (Place { node: to, counter, flying: true }) {
            let claim = format!("{key:?} arrives at node {to} with counter {counter}");
            return Err(("ledger", format!("{claim}, but {place:?}")));
        }
        self.arrivals += 1;
        let account = self.account(key);
        account.flying = false;
        if let Some(left) = account.awaited[to.index()].checked_sub(1) {
            account.awaited[to.index()] = left;
            self.expected += 1;
            self.awaited[station] -= usize::from(left == 0);
        }
        Ok(())
    }

    /// At rest, nodes have counted as many relocations as there were, and timed those that they had asked
    /// for.
    pub(crate) fn counted(&self, relocations: u64, timed: u64) -> Result<(), Finding> {
        if relocations == self.arrivals && timed == self.expected {
            return Ok(());
        }
        let Self { arrivals, expected, .. } = self;
        let counted = format!("nodes counted {relocations} relocations and timed {timed}");
        Err(("ledger", format!("{counted}; there were {arrivals}, and {expected} had been asked for")))
    }

    /// At rest nothing is on its way, and nothing is still to come.
    pub(crate) fn settled(&self, key: Key) -> Result<(), Finding> {
        let place = self.place(key);
        if !place.flying && place.counter == self.last(key) {
            return Ok(());
        }
        let last = self.last(key);
        Err(("ledger", format!("the cluster rests, but {key:?} is to have counter {last}: {place:?}")))
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
        ledger.asked(K, A);
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
        assert!(ledger.is_long_ago(K, 3) && !ledger.is_long_ago(K, 201));
        assert_eq!(ledger.settled(K), Ok(()));
    }
}
