//! AdaPS (000 ch. 5; 002): workers say what they will use, and the owner of each key decides what to do about it.
//!
//! A node tells the owner of a key when it begins to have active intent, and when that is over; not who of its workers has it, or how
//! long. It does so by registering for a replica, and giving it up ([`crate::replication`]). So the owner knows, at any time, which
//! nodes have active intent, its own workers' included, and applies one rule whenever that changes:
//!
//! - exactly one node has active intent, and it is not the owner: the key moves there ([`crate::relocation`], started by the owner). Responsibility moves along;
//! - otherwise all nodes that have active intent hold replicas, which the owner keeps in step.
//!
//! When the last intent is over, the key stays where it is. While two or more nodes have active intent it stays as well, even if its owner has
//! none (000, Fig 5.6): so there is never more than one registration to hand over.
//!
//! Intents become active shortly before their start, as late as is safe: `intendant-intent` says when. Nodes remember where keys were, and
//! operations are chained, because they may take different ways. Accesses without intent work as with any other technique: they are
//! served by the owner, wherever that is.

use super::{Act, Choice, Decider, Initiator, Intents, Order, Policy, Replicas};
use intendant_core::Tick;

/// How often replicas are brought in step, at most: 25 times per second, as static replicas are (000 §4.4.1; §4.4.7 found five harmless),
/// and rarely enough that several updates of a key travel together.
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
