//! The technique's rule: an owner relocates or replicates a key as the rule says for the active intents that
//! it knows of, its own and those of registered holders. Where homes decide, their orders follow the rule for
//! the intents reported to them.

use intendant_core::{Key, NodeId};
use intendant_sim::Finding;
use intendant_techniques::{Choice, Role};

/// Checks an owner that has handled an input and still has the key.
pub(crate) fn check_keeps(
    choice: Choice,
    key: Key,
    (owner, role, own): (NodeId, Role, u32),
    holders: &[NodeId],
) -> Result<(), Finding> {
    let wrong = |what: &str| {
        let known = format!("{owner:?} keeps {key:?}, with {own} own active intents and holders {holders:?}");
        Err(("choice", format!("{known}: {what}")))
    };
    if (role == Role::Hub) == holders.is_empty() {
        return wrong("the role does not match the holders");
    }
    match choice {
        Choice::Adaptive if own == 0 && holders.len() == 1 => {
            wrong("only the holder has intent, so the key must move to it")
        }
        Choice::Relocate if !holders.is_empty() => wrong("keys must move to each node with intent"),
        Choice::Adaptive | Choice::Relocate | Choice::Replicate | Choice::Everywhere => Ok(()),
    }
}

/// Checks an owner that hands a key over to `to`. `requester` is the node whose request the owner handles, if
/// any.
pub(crate) fn check_hands_over(
    choice: Choice,
    key: Key,
    (owner, own): (NodeId, u32),
    holders: &[NodeId],
    to: NodeId,
    requester: Option<NodeId>,
) -> Result<(), Finding> {
    let wrong = |what: &str| {
        let known = format!("{own} own active intents and holders {holders:?}");
        Err(("choice", format!("{owner:?} hands {key:?} over to {to:?}, with {known}: {what}")))
    };
    match choice {
        Choice::Replicate | Choice::Everywhere => wrong("keys must stay at their homes"),
        _ if holders != [to] => wrong("the receiver is not the only holder"),
        Choice::Adaptive if own > 0 => wrong("the owner has active intent"),
        Choice::Relocate if requester != Some(to) => {
            wrong("the owner does not handle a request of that node")
        }
        Choice::Adaptive | Choice::Relocate => Ok(()),
    }
}

/// Checks a home that sends a key to `to`, by an order to the owner or as the owner. `wanted` are the nodes
/// whose active intents were reported to it.
pub(crate) fn check_home_sends(key: Key, home: NodeId, wanted: &[NodeId], to: NodeId) -> Result<(), Finding> {
    if wanted == [to] {
        return Ok(());
    }
    Err((
        "choice",
        format!("{home:?}, home of {key:?}, knows of active intents at {wanted:?}, and sends it to {to:?}"),
    ))
}

/// Checks a home that has handled an input. `wanted` are the nodes whose active intents were reported to it.
/// To its knowledge the key is at `owner`, possibly ordered to leave.
pub(crate) fn check_home_keeps(
    key: Key,
    home: NodeId,
    wanted: &[NodeId],
    owner: Option<NodeId>,
    ordered: Option<NodeId>,
) -> Result<(), Finding> {
    match wanted {
        [only] if ordered.is_none() && owner != Some(*only) => {
            let known = format!("{home:?}, home of {key:?}, knows that it is at {owner:?}");
            Err((
                "choice",
                format!("{known}, and does not send it to {only:?}, the only node with active intent"),
            ))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_follow_the_rule() {
        assert!(check_home_sends(Key(1), A, &[B], B).is_ok());
        assert!(
            check_home_sends(Key(1), A, &[B, C], B).is_err() && check_home_sends(Key(1), A, &[], B).is_err()
        );
        assert!(check_home_keeps(Key(1), A, &[B], Some(B), None).is_ok());
        assert!(check_home_keeps(Key(1), A, &[B], Some(C), Some(B)).is_ok(), "on its way");
        assert!(check_home_keeps(Key(1), A, &[B], Some(C), None).is_err());
        assert!(check_home_keeps(Key(1), A, &[B, C], Some(A), None).is_ok());
    }

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);
    const C: NodeId = NodeId(2);

    #[test]
    fn owners_follow_the_rule() {
        let stay = |choice, own, holders: &[NodeId]| {
            let role = if holders.is_empty() { Role::Owner } else { Role::Hub };
            check_keeps(choice, Key(1), (A, role, own), holders).is_ok()
        };
        assert!(stay(Choice::Adaptive, 0, &[]) && stay(Choice::Adaptive, 0, &[B, C]));
        assert!(stay(Choice::Adaptive, 1, &[B]) && !stay(Choice::Adaptive, 0, &[B]));
        assert!(stay(Choice::Replicate, 0, &[B]) && !stay(Choice::Relocate, 1, &[B]));
        assert!(check_keeps(Choice::Adaptive, Key(1), (A, Role::Hub, 0), &[]).is_err());
        let leave = |choice, own, holders: &[NodeId], requester| {
            check_hands_over(choice, Key(1), (A, own), holders, B, requester).is_ok()
        };
        assert!(leave(Choice::Adaptive, 0, &[B], None) && !leave(Choice::Adaptive, 1, &[B], None));
        assert!(!leave(Choice::Adaptive, 0, &[B, C], None) && !leave(Choice::Adaptive, 0, &[C], None));
        assert!(leave(Choice::Relocate, 3, &[B], Some(B)) && !leave(Choice::Relocate, 0, &[B], None));
        assert!(!leave(Choice::Replicate, 0, &[B], Some(B)) && !leave(Choice::Everywhere, 0, &[B], None));
    }
}
