//! Full replication [thesis §2.2.2]: every node has a copy of every key.
//!
//! No access waits for a message. Nodes synchronise copies in the background, or when all workers ask for it.
//! If workers ask once per batch, that is synchronous SGD [thesis §2.1.4]. In both cases each update enters
//! every copy exactly once ([`crate::allreduce`]).
//!
//! Every node needs memory for twice the model: the values that its workers use, and the values that all
//! nodes agree on. While a round runs in which every key has changed, it needs up to six times the model:
//! also for its contribution, the sum so far, and incoming and outgoing frames.

use super::{Declaration, Location, Order, Policy, StaticReplicas};

/// The technique.
pub const TECHNIQUE: Declaration = Declaration {
    policy: Policy {
        name: "full-replication",
        order: Order::Fifo,
        relocation: None,
        location: Location::Home { caches: false },
        replicas: None,
        static_replicas: Some(StaticReplicas::All),
        intents: None,
    },
    meaning: "replicated on every node",
    source: "",
};
