//! Stale synchronous parallel (Petuum SSP; 000 §2.2.3): replicas on demand, for a while.
//!
//! Keys are owned by their homes, for ever. A worker that reads a key whose owner is another node makes a replica of it, which
//! all workers of its node read and add to. It may be read until it is too stale for the reading worker: a read at clock c sees
//! every update of every worker up to its clock c − s − 1, s being the staleness bound. A replica that is too stale for the
//! slowest worker of the node is dropped; one that is too stale for a faster one is refreshed. Updates travel to the owner when
//! the node's slowest worker advances its clock ([`crate::clocks`], [`crate::replication`]).
//!
//! 000 §2.2.3 lets a replica live for s clocks *since its set-up*, whatever the others do. This reading is stricter: what counts
//! is what the owner had, by everybody's clocks, when it sent the value (001 §2.3); it holds for keys owned here as well.

use super::{Order, Policy, Replicas};

/// What this technique decides.
pub const POLICY: Policy = Policy {
    name: "ssp",
    order: Order::Chain,
    relocation: None,
    caches: false,
    replicas: Some(Replicas::Lazy),
    static_replicas: None,
    intents: None,
};

/// The staleness bound, in clocks, unless the user asks for another.
pub const STALENESS: u32 = 1;
