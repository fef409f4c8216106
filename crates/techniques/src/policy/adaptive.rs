//! AdaPS [thesis ch. 5; AdaPS]: workers say what they will use, and the owner of each key decides about it.
//!
//! A node tells the owner of a key when it begins to have active intent, and when that is over; it does not
//! tell which of its workers have intent, or for how long. It does so by registering for a replica, and by
//! giving the registration up ([`crate::replication`]). So the owner knows, at any time, which nodes have
//! active intent, itself included. It applies one rule whenever that changes:
//!
//! - if exactly one node has active intent, and is not the owner, the key moves there ([`crate::relocation`],
//!   started by the owner), and the responsibility with it;
//! - otherwise all nodes that have active intent hold replicas, which the owner keeps in step.
//!
//! After the last intent the key stays where it is. While two or more nodes have active intent the key stays
//! as well, even if its owner has none [thesis Fig. 5.6]: so a hand-over takes at most one registration
//! along.
//!
//! A node treats an intent as active shortly before its start, as late as is safe: `intendant-intent` says
//! when. Nodes remember where keys were. Operations are chained, because they may take different ways.
//! Accesses without intent work as with any other technique: the owner serves them, wherever it is.

use super::{Act, Choice, Decider, Initiator, Intents, Order, Policy, Replicas};
use intendant_core::Tick;

/// Time from the start of a round of deltas to the start of the next, at least. This gives 25 rounds per
/// second, as for static replicas [thesis §4.4.1]; five per second are harmless [thesis §4.4.7]. Several
/// updates of a key travel together.
pub const EVERY: Tick = Tick(40_000);

/// What this technique decides.
pub const POLICY: Policy = Policy {
    name: "adaptive",
    order: Order::Chain,
    relocation: Some(Initiator::Owner),
    caches: true,
    replicas: Some(Replicas::Directed { every: EVERY }),
    static_replicas: None,
    intents: Some(Intents { choice: Choice::Adaptive, action: Act::InTime, decider: Decider::Owner }),
};
