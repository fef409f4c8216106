//! Eager stale synchronous parallel (Petuum ESSP; 000 §2.2.3): replicas on demand, for ever.
//!
//! As [`super::ssp`], but a replica stays, and its owner sends what is new whenever the slowest node advances its clock. After a
//! while nodes have replicas of all keys that they ever read, and reads wait only for nodes that are slower than the staleness
//! bound allows.

use super::{Order, Policy, Replicas};

/// What this technique decides.
pub const POLICY: Policy = Policy {
    name: "essp",
    order: Order::Chain,
    relocation: None,
    caches: false,
    replicas: Some(Replicas::Eager),
    static_replicas: None,
    intents: None,
};
