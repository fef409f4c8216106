//! Relocation: how the main copy of a key moves. One hand-over, two initiators
//! ([`Initiator`](crate::Initiator)).
//!
//! **The requester starts it** [thesis §3.2.2]. This takes three messages, or two if the home is one of the
//! two owners.
//!
//! | node | has | event | does |
//! | --- | --- | --- | --- |
//! | requester | `Absent`, `Leaving` | a worker's localize | becomes `Arriving`; *localize* → home |
//! | requester | `Arriving`, `Owner` | a worker's localize | nothing: the key is coming, or here |
//! | home | owner O, counter c | *localize* of R | notes owner R and counter c + 1; *relocate* → O |
//! | owner | `Owner` | *relocate* to R | *hand-over* → R; becomes `Absent` |
//! | owner | `Arriving` | *relocate* to R | queues the departure behind the accesses; becomes `Leaving` |
//! | requester | `Arriving`, `Leaving` | *hand-over* | serves its queue; becomes `Owner`, or hands over |
//!
//! A node that is `Arriving` queues accesses; one that is `Leaving` sends new accesses after the key. The
//! home routes accesses to R as soon as it has received the localize. A node that receives the key serves its
//! queue up to the first departure.
//!
//! Two nodes that localize a key at once (a localization conflict) get it in the order in which their
//! messages reach the home. No message overtakes another on a connection, and without location caches every
//! access takes the route of the localize messages, through the home. So an access that the home routes to an
//! owner before a relocation arrives there before the order to hand over, and one that it routes later queues
//! at the next owner: operations of a worker stay in order [thesis theorems 1 and 2].
//!
//! **The owner starts it** [thesis §5.3.4], when it knows which node should have the key. This takes one
//! message, and one to the home afterwards.
//!
//! | node | has | event | does |
//! | --- | --- | --- | --- |
//! | owner | `Owner`, counter c | its own decision | *hand-over*, counter c + 1; becomes `Absent` |
//! | new owner | `Absent` | *hand-over* | becomes `Owner`; *moved* → home |
//! | home | | *moved* | notes the owner, unless it knows a newer one |
//!
//! The *new* owner reports to the home. So a node learns of an owner only after the key has arrived there, no
//! request arrives too early, and none has to be queued. An old owner remembers to which node it handed the
//! key, and forwards requests there. Each forward uses a newer location than the one before it, so no request
//! is forwarded in circles.

use crate::role::is_newer;
use crate::{Role, SlotState};
use intendant_core::NodeId;

/// What the channel must do about a localize of one of this node's workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Localized {
    /// Nothing: the key is here.
    Here,
    /// Nothing: the key is on its way here.
    Coming,
    /// Ask for the key: its home, its last known owner, or all nodes (by [`crate::Location`]). The role is
    /// [`Role::Arriving`] from now on.
    Ask,
}

/// Notes that a worker of this node localizes the key.
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
    /// The previous owner, to which the home must send the order. It may be the home itself.
    pub owner: NodeId,
    /// The counter of the key after the relocation.
    pub counter: u32,
}

/// Orders, at the home `here`, the relocation of the key to `requester`. `None` if the requester owns the key
/// or is its next owner already: then it must not ask.
pub fn order(state: &mut SlotState, here: NodeId, requester: NodeId) -> Option<Ordered> {
    let owner = if state.role.is_owner() { here } else { state.hint()? };
    if owner == requester {
        return None;
    }
    let counter = state.counter.wrapping_add(1);
    state.point(requester, counter);
    Some(Ordered { owner, counter })
}

/// What a node does when the home orders it to hand a key over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Hands over now: call [`depart`].
    Now,
    /// Queues the departure: the key has not arrived yet. The role is [`Role::Leaving`] from now on.
    Queued,
    /// Refuses: the key is not here, and not expected.
    Impossible,
}

/// Judges an order of the home to hand the key over.
pub fn leave(state: &mut SlotState) -> Departure {
    match state.role {
        Role::Owner => Departure::Now,
        Role::Arriving => {
            state.role = Role::Leaving;
            Departure::Queued
        }
        // A key with replicas on other nodes moves by its owner's decision only, with the registrations.
        Role::Absent | Role::Leaving | Role::Hub | Role::Replica | Role::Static => Departure::Impossible,
    }
}

/// Notes that the key leaves this node for `to`, with this counter. The caller sets the role, because the key
/// may be expected back.
pub fn depart(state: &mut SlotState, to: NodeId, counter: u32) {
    // A home noted this departure, and perhaps later ones, when it ordered them.
    if state.hint().is_none() || is_newer(counter, state.counter) {
        state.point(to, counter);
    }
}

/// Whether a hand-over with this counter is possible: if this node is the home, it has ordered the hand-over;
/// any other node knows only an older counter.
#[must_use]
pub fn is_plausible(state: &SlotState, at_home: bool, counter: u32) -> bool {
    if at_home { !is_newer(counter, state.counter) } else { is_newer(counter, state.counter) }
}

/// Notes that the key has arrived, with this counter. The caller sets the role after it has served the queue.
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
    fn a_home_keeps_the_orders_that_it_gave_before_the_key_arrived() {
        let mut home = SlotState::owner();
        order(&mut home, HOME, A);
        home.role = Role::Absent;
        order(&mut home, HOME, HOME);
        order(&mut home, HOME, B);
        arrive(&mut home, true, 2);
        assert_eq!((home.hint(), home.counter), (Some(B), 3), "the key goes on to B");
        arrive(&mut home, true, 3);
        assert_eq!((home.hint(), home.counter), (None, 3), "the key is here, and no order is left");
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
