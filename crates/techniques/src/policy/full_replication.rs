//! Full replication (000 §2.2.2): every node has a copy of every key.
//!
//! No access ever waits for a message. Copies are brought in step in the background, or when all workers ask for it: once per
//! batch, that is synchronous SGD (000 §2.1.4). Either way each update is added to every copy exactly once
//! ([`crate::allreduce`]). Memory is three times the model on every node while updates travel.

use super::{Fixed, Order, Policy};

/// What this technique decides.
pub const POLICY: Policy = Policy {
    name: "full-replication",
    order: Order::Fifo,
    relocation: None,
    caches: false,
    replicas: None,
    fixed: Some(Fixed::All),
};
