//! The classic parameter server (PS-Lite; 000 §2.2.1): static allocation.
//!
//! A key's owner is its home, for ever. Nodes access their own keys through shared memory and all others by a request to the
//! owner, one round trip. Per key, operations of a worker take one path (worker → channel → connection → owner), each step of
//! which keeps order, so synchronous and asynchronous operations are sequentially consistent per key (000 Table 3.2) without
//! chaining.

use super::{Order, Policy};

/// What this technique decides.
pub const POLICY: Policy = Policy {
    name: "classic",
    order: Order::Fifo,
    relocation: None,
    caches: false,
    replicas: None,
    static_replicas: None,
    intents: None,
};
