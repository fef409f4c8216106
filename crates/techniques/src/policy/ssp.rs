//! Stale synchronous parallel [SSP; thesis §2.2.3]: replicas on demand, dropped when stale.
//!
//! Homes own their keys for the whole run. A worker that reads a key of another node makes its node a holder
//! of a replica, which all workers of the node read and add to. A worker may read the replica until it is too
//! stale for that worker: a read at clock c sees every update of every worker up to its own clock c − s − 1,
//! where s is the staleness bound. A node drops a replica that is too stale for its slowest worker, and
//! refreshes one that is too stale for a faster worker. Updates travel to the owner when the node's slowest
//! worker advances its clock ([`crate::clocks`], [`crate::replication`]).
//!
//! In the thesis a replica lives for s clocks *since its set-up*, independently of other workers [thesis
//! §2.2.3]. This reading is stricter: the staleness counts from the updates that the owner had, by all
//! workers' clocks, when it sent the value [Lapser §2.3]; and the bound holds for keys that the reading node
//! owns as well.

use super::{Declaration, Location, Order, Policy, Replicas};

/// The technique.
pub const TECHNIQUE: Declaration = Declaration {
    policy: Policy {
        name: "ssp",
        order: Order::Chain,
        relocation: None,
        location: Location::Home { caches: false },
        replicas: Some(Replicas::Lazy),
        static_replicas: None,
        intents: None,
    },
    meaning: "replicated on first read; dropped when stale",
    source: "SSP",
};

/// The staleness bound, in clocks, unless the user asks for another.
pub const STALENESS: u32 = 1;
