//! NuPS (000 ch. 4, without sampling): hot keys are replicated, the others relocated.
//!
//! Which keys are replicated is decided per key before the start ([`crate::Assignment`]): by hand, from a file, or those that
//! are accessed more than 100 times as often as the mean. Replicated keys are read and added to on every node as if it owned
//! them, and brought in step in the background ([`crate::allreduce`]); to localize them does nothing. All others are Lapse's
//! ([`super::lapse`]), and sequentially consistent.

use super::{Initiator, Order, Policy, StaticReplicas};

/// What this technique decides.
pub const POLICY: Policy = Policy {
    name: "nups",
    order: Order::Fifo,
    relocation: Some(Initiator::Requester),
    caches: false,
    replicas: None,
    static_replicas: Some(StaticReplicas::Assigned),
    intents: None,
};
