//! NuPS without sampling [NuPS; thesis ch. 4]: hot keys are replicated, the others relocated.
//!
//! An [`Assignment`](crate::Assignment) decides per key before the start which keys are replicated: by hand,
//! from a file, or those that are accessed more than 100 times as often as the mean key. Every node reads and
//! adds to replicated keys as if it owned them, and nodes synchronise the copies in the background
//! ([`crate::allreduce`]); localizing them has no effect. All other keys are managed as by [`super::lapse`],
//! and are sequentially consistent.

use super::{Declaration, Initiator, Location, Order, Policy, StaticReplicas};

/// The technique.
pub const TECHNIQUE: Declaration = Declaration {
    policy: Policy {
        name: "nups",
        order: Order::Fifo,
        relocation: Some(Initiator::Requester),
        location: Location::Home { caches: false },
        replicas: None,
        static_replicas: Some(StaticReplicas::Assigned),
        intents: None,
    },
    meaning: "hot parameters are replicated on every node, the others relocated",
    source: "NuPS",
};
