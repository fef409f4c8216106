//! Eager stale synchronous parallel [ESSP; thesis §2.2.3]: replicas on demand, kept for the whole run.
//!
//! As [`super::ssp`], but a replica stays, and its owner sends updates whenever the slowest node advances its
//! clock. After a while nodes have replicas of all keys that they ever read, and reads wait only for nodes
//! that are slower than the staleness bound allows.

use super::{Declaration, Location, Order, Policy, Replicas};

/// The technique.
pub const TECHNIQUE: Declaration = Declaration {
    policy: Policy {
        name: "essp",
        order: Order::Chain,
        relocation: None,
        location: Location::Home { caches: false },
        replicas: Some(Replicas::Eager),
        static_replicas: None,
        intents: None,
    },
    meaning: "replicated on first read; kept and refreshed",
    source: "ESSP",
};
