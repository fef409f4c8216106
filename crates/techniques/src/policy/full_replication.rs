//! Full replication (000 §2.2.2): every node has a copy of every key.
//!
//! No access ever waits for a message. Copies are brought in step in the background, or when all workers ask for it: once per
//! batch, that is synchronous SGD (000 §2.1.4). Either way each update is added to every copy exactly once
//! ([`crate::allreduce`]). Memory is twice the model on every node (what workers use, and what all nodes agree on), and up to six
//! times while a round runs in which everything has changed: what the node adds, the sum so far, and frames that go and come.

use super::{Order, Policy, StaticReplicas};

/// What this technique decides.
pub const POLICY: Policy = Policy {
    name: "full-replication",
    order: Order::Fifo,
    relocation: None,
    caches: false,
    replicas: None,
    static_replicas: Some(StaticReplicas::All),
    intents: None,
};
