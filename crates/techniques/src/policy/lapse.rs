//! Lapse: dynamic allocation by relocation [Lapse; thesis ch. 3].
//!
//! Workers *localize* the keys that they are about to use, and the keys move to their node; from then on
//! accesses are local ([`crate::relocation`]). A key has one copy, so no read is stale. A key that several
//! nodes want at once moves from one to the next, and other nodes access it at its owner.
//!
//! Location caches are optional [thesis §3.2.3]. Without them every access that is not local passes the home
//! of the key. With them a correct location saves a message, and a stale one costs one (*double forward*).
//! With caches and [`Order::Fifo`] two asynchronous operations of a worker on a key may take different
//! routes, and the later one may arrive first [thesis theorem 3]; therefore [`Order::Chain`] is the default
//! with caches.

use super::{Declaration, Initiator, Location, Order, Policy};

/// The technique.
pub const TECHNIQUE: Declaration = Declaration {
    policy: Policy {
        name: "lapse",
        order: Order::Fifo,
        relocation: Some(Initiator::Requester),
        location: Location::Home { caches: false },
        replicas: None,
        static_replicas: None,
        intents: None,
    },
    meaning: "relocated to the node that is about to use it",
    source: "Lapse",
};
