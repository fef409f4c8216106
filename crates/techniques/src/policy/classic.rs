//! The classic parameter server [PS-Lite; thesis §2.2.1]: static allocation.
//!
//! The owner of a key is its home, for the whole run. Nodes access their own keys through shared memory and
//! all others by a request to the owner, one round trip. The operations of a worker on a key take one path
//! (worker → channel → connection → owner), each step of which keeps their order. So synchronous and
//! asynchronous operations are sequentially consistent per key without chaining [thesis Tab. 3.2].

use super::{Declaration, Location, Order, Policy};

/// The technique.
pub const TECHNIQUE: Declaration = Declaration {
    policy: Policy {
        name: "classic",
        order: Order::Fifo,
        relocation: None,
        location: Location::Home { caches: false },
        replicas: None,
        static_replicas: None,
        intents: None,
    },
    meaning: "stays at its home; other nodes send requests",
    source: "PS-Lite",
};
