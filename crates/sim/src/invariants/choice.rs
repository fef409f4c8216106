//! What an owner does is what the rule makes of the active intents that it knows of: its own, and of nodes
//! that are registered. Where homes decide, what they order is what the rule makes of what they have been
//! told.

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
        Choice::Relocate if !holders.is_empty() => wrong("it moves to each node with intent"),
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

/// The home of a key, told of active intents at the nodes `wanted`, sends the key to `to`: by an order, or
/// because it owns it.
pub(crate) fn sends(key: Key, home: NodeId, wanted: &[NodeId], to: NodeId) -> Result<(), Finding> {
    if wanted == [to] {
        return Ok(());
    }
    Err((
        "choice",
        format!("{home:?}, home of {key:?}, knows of intents of {wanted:?} and sends it to {to:?}"),
    ))
}

/// The home of a key, told of active intents at the nodes `wanted`, has handled an input. The key is at
/// `owner`, as far as it knows, and maybe ordered to leave.
pub(crate) fn leaves_it(
    key: Key,
    home: NodeId,
    wanted: &[NodeId],
    owner: Option<NodeId>,
    ordered: Option<NodeId>,
) -> Result<(), Finding> {
    match wanted {
        [only] if ordered.is_none() && owner != Some(*only) => {
            let known = format!("{home:?}, home of {key:?}, knows that it is at {owner:?}");
            Err(("choice", format!("{known}, and does not send it to {only:?}, which alone wants it")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_follow_the_rule() {
        assert!(sends(Key(1), A, &[B], B).is_ok());
        assert!(sends(Key(1), A, &[B, C], B).is_err() && sends(Key(1), A, &[], B).is_err());
        assert!(leaves_it(Key(1), A, &[B], Some(B), None).is_ok());
        assert!(leaves_it(Key(1), A, &[B], Some(C), Some(B)).is_ok(), "on its way");
        assert!(leaves_it(Key(1), A, &[B], Some(C), None).is_err());
        assert!(leaves_it(Key(1), A, &[B, C], Some(A), None).is_ok());
    }

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
