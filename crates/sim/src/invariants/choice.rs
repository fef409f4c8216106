//! What an owner does is what the rule makes of the active intents that it knows of: its own, and of nodes that are registered.

use super::Finding;
use intendant_core::{Key, NodeId};
use intendant_techniques::{Choice, Role};

/// An owner has handled an input, and has the key still.
pub(crate) fn stays(
    choice: Choice,
    key: Key,
    (owner, role, own): (NodeId, Role, u32),
    holders: &[NodeId],
) -> Result<(), Finding> {
    let wrong = |what: &str| {
        let known =
            format!("{owner:?} keeps {key:?}, with {own} active intents of its own, and of {holders:?}");
        Err(("choice", format!("{known}: {what}")))
    };
    if (role == Role::Hub) == holders.is_empty() {
        return wrong("the role says otherwise");
    }
    match choice {
        Choice::Adaptive if own == 0 && holders.len() == 1 => wrong("only one node wants it"),
        Choice::Relocate if !holders.is_empty() => wrong("it moves to whoever wants it"),
        Choice::Adaptive | Choice::Relocate | Choice::Replicate | Choice::Everywhere => Ok(()),
    }
}

/// An owner hands a key over to `to`. `asker` is the node whose wish it has just heard, if it has.
pub(crate) fn leaves(
    choice: Choice,
    key: Key,
    (owner, own): (NodeId, u32),
    holders: &[NodeId],
    to: NodeId,
    asker: Option<NodeId>,
) -> Result<(), Finding> {
    let wrong = |what: &str| {
        let known = format!("{own} active intents of its own, and of {holders:?}");
        Err(("choice", format!("{owner:?} hands {key:?} over to {to:?}, with {known}: {what}")))
    };
    match choice {
        Choice::Replicate | Choice::Everywhere => wrong("keys stay at their homes"),
        _ if holders != [to] => wrong("it is not the only other node that wants it"),
        Choice::Adaptive if own > 0 => wrong("the owner wants it"),
        Choice::Relocate if asker != Some(to) => wrong("that node has not just asked for it"),
        Choice::Adaptive | Choice::Relocate => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);
    const C: NodeId = NodeId(2);

    #[test]
    fn owners_follow_the_rule() {
        let stay = |choice, own, holders: &[NodeId]| {
            let role = if holders.is_empty() { Role::Owner } else { Role::Hub };
            stays(choice, Key(1), (A, role, own), holders).is_ok()
        };
        assert!(stay(Choice::Adaptive, 0, &[]) && stay(Choice::Adaptive, 0, &[B, C]));
        assert!(stay(Choice::Adaptive, 1, &[B]) && !stay(Choice::Adaptive, 0, &[B]));
        assert!(stay(Choice::Replicate, 0, &[B]) && !stay(Choice::Relocate, 1, &[B]));
        assert!(stays(Choice::Adaptive, Key(1), (A, Role::Hub, 0), &[]).is_err());
        let leave = |choice, own, holders: &[NodeId], asker| {
            leaves(choice, Key(1), (A, own), holders, B, asker).is_ok()
        };
        assert!(leave(Choice::Adaptive, 0, &[B], None) && !leave(Choice::Adaptive, 1, &[B], None));
        assert!(!leave(Choice::Adaptive, 0, &[B, C], None) && !leave(Choice::Adaptive, 0, &[C], None));
        assert!(leave(Choice::Relocate, 3, &[B], Some(B)) && !leave(Choice::Relocate, 0, &[B], None));
        assert!(!leave(Choice::Replicate, 0, &[B], Some(B)) && !leave(Choice::Everywhere, 0, &[B], None));
    }
}
