//! Knowledge of locations: a location that a node knows was true once, and never gives way to an older one.
//!
//! The knowledge of a key's home is checked further: where the home decides, its entry follows each decision
//! at once; where owners decide, it is never ahead of the owners.

use super::Ledger;
use hashbrown::HashMap;
use intendant_core::{Key, Layout, NodeId};
use intendant_engine::Storage;
use intendant_sim::Finding;
use intendant_techniques::{Initiator, Location, Policy, SlotState};

/// Number of keys up to which nodes keep all known locations: a channel of a sparse store keeps this many
/// locations of absent keys.
const NEVER_FORGOTTEN_KEYS: u64 = 1 << 16;

/// The newest relocation counter seen, by key and node.
pub(crate) struct Knowledge {
    nodes: usize,
    /// Whether the home decides about relocations.
    home_decides: bool,
    /// Whether nodes may forget what they know of keys whose home is elsewhere.
    forgetful: bool,
    seen: HashMap<Key, Box<[u32]>, foldhash::fast::FixedState>,
}

impl Knowledge {
    pub(crate) fn new(layout: &Layout, storage: Storage, policy: &Policy) -> Self {
        let home_decides = policy.relocation == Some(Initiator::Requester) && policy.location.has_homes();
        let many = layout.keys() > NEVER_FORGOTTEN_KEYS;
        let follows = policy.location == Location::BroadcastRelocations;
        let requested = policy.relocation == Some(Initiator::Requester);
        let forgetful = many && requested && !follows && storage == Storage::Sparse;
        Self { nodes: layout.nodes(), home_decides, forgetful, seen: HashMap::default() }
    }

    /// Checks what `node` knows of `key`.
    pub(crate) fn check(
        &mut self,
        key: Key,
        node: NodeId,
        at_home: bool,
        state: &SlotState,
        ledger: &Ledger,
    ) -> Result<(), Finding> {
        let finding = |what: String| {
            let place = if at_home { "its home " } else { "" };
            Err(("knowledge", format!("of {key:?}, {place}{node:?} knows {state:?}; {what}")))
        };
        let nodes = self.nodes;
        let seen = &mut self.seen.entry(key).or_insert_with(|| vec![0; nodes].into())[node.index()];
        if state.counter < *seen && (at_home || !self.forgetful) {
            return finding(format!("its counter was {seen} before"));
        }
        *seen = state.counter;
        if *state == SlotState::default() {
            return Ok(());
        }
        let place = ledger.place(key);
        if state.role.is_owner() && state.counter != place.counter {
            return finding(format!("the main copy is at {place:?}"));
        }
        let newest = if self.home_decides && at_home { ledger.last(key) } else { place.counter };
        if self.home_decides && at_home && state.counter != newest {
            return finding(format!("it has decided up to counter {newest}"));
        }
        if state.counter > newest {
            return finding(format!("the newest counter is {newest}"));
        }
        let Some(hint) = state.hint().filter(|_| !state.role.is_owner()) else { return Ok(()) };
        match ledger.owner(key, state.counter) {
            Some(owner) if owner == hint => Ok(()),
            None if ledger.is_forgotten(key, state.counter) => Ok(()),
            owner => finding(format!("the owner with this counter was {owner:?}")),
        }
    }
}

/// At rest, a node that must know the last owner of a key that moved knows it.
pub(crate) fn at_rest(key: Key, node: NodeId, state: &SlotState, ledger: &Ledger) -> Result<(), Finding> {
    let last = ledger.last(key);
    if state.counter == last {
        return Ok(());
    }
    Err((
        "knowledge",
        format!("the cluster rests; of {key:?}, {node:?} knows {state:?}, but not counter {last}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::KeyOrder;
    use intendant_techniques::Technique;
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
        let mut knowledge = Knowledge::new(&layout, Storage::Sparse, &Technique::Lapse.policy());
        let mut check = |node: NodeId, state| knowledge.check(K, node, node == HOME, &state, &ledger);
        assert_eq!(check(A, SlotState::default()), Ok(()));
        assert_eq!(check(A, knows(B, 2)), Ok(()));
        assert!(check(A, knows(A, 1)).is_err(), "older");
        assert!(check(A, SlotState::default()).is_err(), "forgotten");
        assert!(check(B, knows(B, 1)).is_err(), "never true");
        assert!(check(B, knows(A, 3)).is_err(), "of the future");
        assert!(check(HOME, knows(A, 1)).is_err(), "the home decided about B");
        assert_eq!(check(HOME, knows(B, 2)), Ok(()));
        assert_eq!(at_rest(K, HOME, &knows(B, 2), &ledger), Ok(()));
        assert!(at_rest(K, HOME, &knows(A, 1), &ledger).is_err());
    }
}
