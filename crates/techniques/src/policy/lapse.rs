//! Lapse: dynamic allocation by relocation (000 ch. 3).
//!
//! Workers say which keys they are about to use (*localize*), and the keys move to their node; from then on accesses are local
//! ([`crate::relocation`]). There is one copy of a key, so nothing is stale; keys that several nodes want at once move from one
//! to the next, and accesses that miss them go to where they are.
//!
//! Location caches are optional, as there (000 §3.2.3): without them every access that is not local goes over the key's home.
//! A cached location saves a message if it is right and costs one if it is not (*double forward*). With caches and
//! [`Order::Fifo`] two asynchronous operations of a worker on a key may take different ways, and the later one may arrive
//! first (000, theorem 3); therefore [`Order::Chain`] is the default with caches.

use super::{Initiator, Order, Policy};

/// What this technique decides.
pub const POLICY: Policy = Policy {
    name: "lapse",
    order: Order::Fifo,
    relocation: Some(Initiator::Requester),
    caches: false,
    replicas: None,
    static_replicas: None,
    intents: None,
};
