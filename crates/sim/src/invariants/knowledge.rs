//! What nodes know of where keys are was true once, and is never replaced by something older.
//!
//! The knowledge of the key's home is checked further: where the home decides, its entry follows each
//! decision at once; where owners decide, it never runs ahead of them.

use super::{Finding, Ledger};
use hashbrown::HashMap;
use intendant_core::{Key, Layout, NodeId};
use intendant_engine::Storage;
use intendant_techniques::{Initiator, SlotState};

/// Keys up to which a node never forgets any: sparse stores remember so many per channel of those that are
/// elsewhere.
const NEVER_FORGOTTEN_KEYS: u64 = 1 << 16;

/// The newest counter that was seen per key and node.
pub(crate) struct Knowledge {
    nodes: usize,
    /// Whether the home decides about relocations.
    home_decides: bool,
    /// Whether nodes may forget what they know of keys whose home is elsewhere.
    forgetful: bool,
    seen: HashMap<Key, Box<[u32]>, foldhash::fast::FixedState>,
}

impl Knowledge {
    pub(crate) fn new(layout: &Layout, storage: Storage, relocation: Option<Initiator>) -> Self {
        let home_decides = relocation == Some(Initiator::Requester);
        let many = layout.keys() > NEVER_FORGOTTEN_KEYS;
        let forgetful = many && home_decides && storage == Storage::Sparse;
        Self { nodes: layout.nodes(), home_decides, forgetful, seen: HashMap::default() }
    }

    /// Looks at what `node` knows of `key`.
    pub(crate) fn look(
        &mut self,
        key: Key,
        node: NodeId,
        at_home: bool,
        state: &SlotState,
        ledger: &Ledger,
    ) -> Result<(), Finding> {
        let finding = |what: String| {
            let where_ = if at_home { "its home " } else { "" };
            Err(("knowledge", format!("of {key:?}, {where_}{node:?} knows {state:?}; {what}")))
        };
        let nodes = self.nodes;
        let seen = &mut self.seen.entry(key).or_insert_with(|| vec![0; nodes].into())[node.index()];
        if state.counter < *seen && (at_home || !self.forgetful) {
            return finding(format!("it had counter {seen}"));
        }
        *seen = state.counter;
        if *state == SlotState::default() {
            return Ok(());
        }
        let place = ledger.place(key);
        if state.role.is_owner() && state.counter != place.counter {
            return finding(format!("the value is at {place:?}"));
        }
        let newest = if self.home_decides && at_home { ledger.last(key) } else { place.counter };
        if self.home_decides && at_home && state.counter != newest {
            return finding(format!("it decided about counter {newest} already"));
        }
        if state.counter > newest {
            return finding(format!("counter {newest} is the newest"));
        }
        let Some(hint) = state.hint().filter(|_| !state.role.is_owner()) else { return Ok(()) };
        match ledger.owner(key, state.counter) {
            Some(owner) if owner == hint => Ok(()),
            None if ledger.is_long_ago(key, state.counter) => Ok(()),
            owner => finding(format!("the owner of that time was {owner:?}")),
        }
    }
}

/// At rest, the home of a key that moved knows the last of its owners.
pub(crate) fn at_rest(key: Key, home: NodeId, state: &SlotState, ledger: &Ledger) -> Result<(), Finding> {
    let last = ledger.last(key);
    if state.counter == last {
        return Ok(());
    }
    Err((
        "knowledge",
        format!("the cluster rests; of {key:?}, its home {home:?} knows {state:?}, but not counter {last}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::KeyOrder;
    use std::sync::Arc;

    const K: Key = Key(0);
    const HOME: NodeId = NodeId(0);
    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn knows(node: NodeId, counter: u32) -> SlotState {
        let mut state = SlotState::default();
        state.learn(node, counter);
        state
    }

    #[test]
    fn knowledge_is_true_and_does_not_age() {
        let layout = Layout::builder().range("k", 3, 1).nodes(3).order(KeyOrder::Range).build().unwrap();
        let layout = Arc::new(layout);
        let mut ledger = Ledger::new(&layout);
        for (to, from, counter) in [(A, HOME, 1), (B, A, 2)] {
            ledger.ordered(K, to);
            ledger.departed(K, from, to, counter, false).unwrap();
            ledger.arrived(K, to, counter).unwrap();
        }
        let mut knowledge = Knowledge::new(&layout, Storage::Sparse, Some(Initiator::Requester));
        let mut look = |node: NodeId, state| knowledge.look(K, node, node == HOME, &state, &ledger);
        assert_eq!(look(A, SlotState::default()), Ok(()));
        assert_eq!(look(A, knows(B, 2)), Ok(()));
        assert!(look(A, knows(A, 1)).is_err(), "older");
        assert!(look(A, SlotState::default()).is_err(), "forgotten");
        assert!(look(B, knows(B, 1)).is_err(), "never true");
        assert!(look(B, knows(A, 3)).is_err(), "of the future");
        assert!(look(HOME, knows(A, 1)).is_err(), "the home decided about B");
        assert_eq!(look(HOME, knows(B, 2)), Ok(()));
        assert_eq!(at_rest(K, HOME, &knows(B, 2), &ledger), Ok(()));
        assert!(at_rest(K, HOME, &knows(A, 1), &ledger).is_err());
    }
}
