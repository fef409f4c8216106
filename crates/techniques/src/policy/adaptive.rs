//! AdaPS [thesis ch. 5; AdaPS]: workers say what they will use, and the owner of each key decides about it.
//!
//! A node notifies the owner of a key when its active intent begins, and when it ends; the owner does not
//! learn which of the node's workers have intent, or for how long. The node does so by registering for a
//! replica, and by dropping the registration ([`crate::replication`]). So the owner knows, at any time, which
//! nodes have active intent, itself included. It applies one rule whenever that changes:
//!
//! - if exactly one node has active intent, and is not the owner, the key moves there ([`crate::relocation`],
//!   started by the owner), and the responsibility with it;
//! - otherwise all nodes that have active intent hold replicas, which the owner keeps in step.
//!
//! After the last intent the key is not moved. While two or more nodes have active intent it is not moved
//! either, even if its owner has none [thesis Fig. 5.6]: so a hand-over carries at most one registration.
//!
//! A node treats an intent as active shortly before its start, as late as is safe: `intendant-intent` says
//! when. Nodes cache the locations of keys. Operations are chained, because they may take different routes.
//! Accesses without intent work as with any other technique: the current owner serves them.

use super::{Act, Choice, Decider, Declaration, Initiator, IntentPolicy, Location, Order, Policy, Replicas};
use intendant_core::Tick;

/// The shortest time from the start of a round of deltas to the start of the next. This gives 25 rounds per
/// second, as for static replicas [thesis §4.4.1]; five per second are harmless [thesis §4.4.7]. Several
/// updates of a key travel together.
pub const EVERY: Tick = Tick(40_000);

/// The technique.
pub const TECHNIQUE: Declaration = Declaration {
    policy: Policy {
        name: "adaptive",
        order: Order::Chain,
        relocation: Some(Initiator::Owner),
        location: Location::Home { caches: true },
        replicas: Some(Replicas::Directed { every: EVERY }),
        static_replicas: None,
        intents: Some(IntentPolicy {
            choice: Choice::Adaptive,
            action: Act::InTime,
            decider: Decider::Owner,
        }),
    },
    meaning: "moved to the only node with intent; if several have intent, the owner keeps it and they hold replicas",
    source: "AdaPS",
};
