//! Relocation: how the main copy of a key moves. One hand-over, two initiators ([`Initiator`](crate::Initiator)).
//!
//! **The requester starts it** (Lapse; 000 §3.2.2). Three messages; two if the home is one of the two owners.
//!
//! | who | has | hears | does |
//! | --- | --- | --- | --- |
//! | requester | `Absent`, `Leaving` | a worker's localize | becomes `Arriving`: accesses queue from now on; *localize* → home |
//! | requester | `Arriving`, `Owner` | a worker's localize | nothing: it is coming, or here |
//! | home | owner O with counter c | *localize* of R | notes owner R, counter c + 1 at once: everything is routed to R from now on; *relocate* → O |
//! | owner | `Owner` | *relocate* to R | *hand-over* → R; becomes `Absent` |
//! | owner | `Arriving` | *relocate* to R | queues the departure behind the accesses; becomes `Leaving`: what comes now follows the key |
//! | requester | `Arriving`, `Leaving` | *hand-over* | serves what is queued, in order, up to the first departure; becomes `Owner`, or hands over |
//!
//! Two nodes that want a key at once (a localization conflict) get it in the order in which their messages reach the home. No
//! message overtakes another on a connection, and without location caches every access takes the way of the localize messages:
//! over the home. So what the home routed to an owner before a relocation arrives there before the order to leave, and what it
//! routed after it queues at the next owner: operations of a worker stay in order (000, theorems 1 and 2).
//!
//! **The owner starts it** (AdaPS; 000 §5.3.4), when it knows who should have the key. One message, and one to the home
//! afterwards.
//!
//! | who | has | hears | does |
//! | --- | --- | --- | --- |
//! | owner | `Owner`, counter c | a decision of its own | *hand-over* with counter c + 1 → new owner; becomes `Absent`, remembers where the key went |
//! | new owner | `Absent` | *hand-over* | becomes `Owner`; *moved* → home |
//! | home | | *moved* | notes the owner, unless it knows newer |
//!
//! The *new* owner tells the home: whoever is told about an owner is told after the key has arrived there, so a request never
//! comes too early, and nobody needs a queue. An old owner forwards by what it remembers; each forward follows newer knowledge
//! than the one before it, so a request never goes in circles.

use crate::role::is_newer;
use crate::{Role, SlotState};
use intendant_core::NodeId;

/// What a localize of this node's worker needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Localized {
    /// Nothing: the key is here.
    Here,
    /// Nothing but patience: it is on its way.
    Coming,
    /// The home must be asked. The state is [`Role::Arriving`] from now on.
    Ask,
}

/// A worker of this node wants the key here.
pub fn localize(state: &mut SlotState) -> Localized {
    state.set_localized();
    match state.role {
        Role::Owner | Role::Hub | Role::Replica | Role::Static => Localized::Here,
        Role::Arriving => Localized::Coming,
        Role::Absent | Role::Leaving => {
            state.role = Role::Arriving;
            Localized::Ask
        }
    }
}

/// A relocation that the home has ordered after all earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// The owner until then, who must be told; it may be the home itself.
    pub owner: NodeId,
    /// The counter of the key after the relocation.
    pub counter: u32,
}

/// At the home `here`: orders the relocation of the key to `requester`. `None` if the requester owns the key, or will, already:
/// then nobody should have asked.
pub fn order(state: &mut SlotState, here: NodeId, requester: NodeId) -> Option<Ordered> {
    let owner = if state.role.is_owner() { here } else { state.hint()? };
    if owner == requester {
        return None;
    }
    let counter = state.counter.wrapping_add(1);
    state.point(requester, counter);
    Some(Ordered { owner, counter })
}

/// What an owner does that is told to hand over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Hands over now: call [`depart`].
    Now,
    /// Queues the departure: the key has not arrived yet. The state is [`Role::Leaving`] from now on.
    Queued,
    /// The key is not here, and not expected: who says so is wrong.
    Impossible,
}

/// The home has told this node to hand over.
pub fn leave(state: &mut SlotState) -> Departure {
    match state.role {
        Role::Owner => Departure::Now,
        Role::Arriving => {
            state.role = Role::Leaving;
            Departure::Queued
        }
        // What has replicas elsewhere moves by its owner's decision only, with the registrations.
        Role::Absent | Role::Leaving | Role::Hub | Role::Replica | Role::Static => Departure::Impossible,
    }
}

/// The value leaves this node for `to`, whose counter will be `counter`. The role is the caller's to set: the key may be
/// expected back.
pub fn depart(state: &mut SlotState, to: NodeId, counter: u32) {
    // A home has noted this departure, and maybe later ones, when it ordered them.
    if state.hint().is_none() || is_newer(counter, state.counter) {
        state.point(to, counter);
    }
}

/// Whether a hand-over with this counter can be true: at the home it was ordered, elsewhere it is news.
#[must_use]
pub fn is_plausible(state: &SlotState, at_home: bool, counter: u32) -> bool {
    if at_home { !is_newer(counter, state.counter) } else { is_newer(counter, state.counter) }
}

/// The value has arrived, with this counter. The role is the caller's to set, when what was queued has been served.
pub fn arrive(state: &mut SlotState, at_home: bool, counter: u32) {
    // The home may have ordered later relocations already.
    if !at_home || state.counter == counter {
        state.own(counter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: NodeId = NodeId(0);
    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    #[test]
    fn the_home_orders_relocations_one_after_the_other() {
        let mut home = SlotState::owner();
        assert_eq!(order(&mut home, HOME, A), Some(Ordered { owner: HOME, counter: 1 }));
        assert_eq!(leave(&mut home), Departure::Now);
        home.role = Role::Absent;
        depart(&mut home, A, 1);
        assert_eq!(order(&mut home, HOME, A), None, "it has it");
        assert_eq!(order(&mut home, HOME, B), Some(Ordered { owner: A, counter: 2 }));
        assert_eq!(localize(&mut home), Localized::Ask);
        assert_eq!(order(&mut home, HOME, HOME), Some(Ordered { owner: B, counter: 3 }));
        assert_eq!(localize(&mut home), Localized::Coming);
        // Before the key is back, A wants it again.
        assert_eq!(order(&mut home, HOME, A), Some(Ordered { owner: HOME, counter: 4 }));
        assert_eq!(leave(&mut home), Departure::Queued);
        assert!(is_plausible(&home, true, 3));
        arrive(&mut home, true, 3);
        depart(&mut home, A, 4);
        assert_eq!((home.hint(), home.counter), (Some(A), 4));
    }

    #[test]
    fn a_key_that_leaves_may_be_wanted_back_before_it_has_come() {
        let mut state = SlotState::default();
        assert_eq!(leave(&mut state), Departure::Impossible);
        assert_eq!(localize(&mut state), Localized::Ask);
        assert_eq!(leave(&mut state), Departure::Queued);
        assert_eq!(leave(&mut state), Departure::Impossible, "it is promised already");
        assert_eq!(localize(&mut state), Localized::Ask);
        assert!(is_plausible(&state, false, 1) && !is_plausible(&state, false, 0));
        arrive(&mut state, false, 1);
        depart(&mut state, B, 2);
        assert!(is_plausible(&state, false, 3) && !is_plausible(&state, false, 2));
        arrive(&mut state, false, 3);
        assert_eq!((state.role, state.hint(), state.counter), (Role::Arriving, None, 3));
    }
}
