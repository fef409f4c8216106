//! Urgent replicas: after a look, a channel has sent the delta of every replica whose allowance is used up,
//! or an earlier delta of it is in flight.

use intendant_core::{Key, NodeId};
use intendant_sim::Finding;
use intendant_techniques::{Role, SlotState};

/// Checks the replica that `node` has of `key`, if any, after a look of its channel. `waits` says whether a
/// message about the replica must be answered before a delta may be sent.
pub(crate) fn after_look(node: NodeId, key: Key, state: &SlotState, waits: bool) -> Result<(), Finding> {
    if state.role != Role::Replica || !state.is_dirty() || !state.is_urgent() || waits {
        return Ok(());
    }
    Err(("urgent", format!("{node:?} has looked, but has not sent the urgent updates of {key:?}: {state:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_urgent_replica_is_sent_unless_it_waits() {
        let check = |state: &SlotState, waits| after_look(NodeId(1), Key(2), state, waits);
        let mut state = SlotState::default();
        (state.role, state.side) = (Role::Replica, 1);
        state.set_dirty(true);
        assert_eq!(check(&state, false), Ok(()), "one update is left");
        assert!(state.count_down());
        assert!(check(&state, false).is_err());
        assert_eq!(check(&state, true), Ok(()));
        state.set_dirty(false);
        assert_eq!(check(&state, false), Ok(()), "all is sent");
        state.set_dirty(true);
        state.role = Role::Hub;
        assert_eq!(check(&state, false), Ok(()), "a main copy");
    }
}
