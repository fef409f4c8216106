//! Invariants of simulated clusters; one file each. Each file keeps its own account of what the engines do,
//! and returns a [`Finding`] when the engines deviate from it.
//!
//! | file | invariant |
//! | --- | --- |
//! | `ledger` | the hand-overs of a key form one chain, in the order in which homes decided |
//! | `owners` | a key has one owner, which alone holds its main copy, or the main copy is in flight |
//! | `knowledge` | a location that a node knows was true once, and never gives way to an older one |
//! | `queued` | an access that arrives before its key waits for the key, and is served on arrival |
//! | `replies` | every deferred key of an operation is answered exactly once, to the requesting worker |
//! | `hops` | a request is forwarded a bounded number of times |
//! | `bounded` | a channel has nothing outstanding but submissions, snapshot requests and requested keys |
//! | `mirrors` | a mirror in a window is the value of a main copy that its node owns alone |
//! | `merged` | the owner of a key merges every delta of a replica once, and a version names one value |
//! | `echo` | an owner does not send a holder a value that the holder already has |
//! | `rounds` | after each round of an all-reduce, all nodes have bitwise equal values |
//! | `replicas` | at rest, all copies of a key are bitwise equal, and its owner knows all holders |
//! | `urgent` | after a look, no replica is left whose allowance is used up, unless it waits for an answer |
//! | `choice` | owners and homes apply the technique's rule to the active intents that they know |
//! | `intents` | nodes count their workers' active intents, request these keys, and release them afterwards |
//!
//! Other modules of this crate check the values that workers see, from calls and their results alone; the
//! simulator checks itself (`intendant-sim`, `invariants`).

mod bounded;
pub(crate) mod choice;
mod echo;
mod hops;
pub(crate) mod intents;
mod knowledge;
mod ledger;
mod merged;
mod mirrors;
mod owners;
mod queued;
mod replicas;
mod replies;
mod rounds;
pub(crate) mod urgent;

pub(crate) use bounded::Bounded;
pub(crate) use hops::Hops;
pub(crate) use intents::Intents;
pub(crate) use knowledge::Knowledge;
pub(crate) use ledger::Ledger;
pub(crate) use merged::{Merged, Promoted, Registered, SentUpdate};
pub(crate) use mirrors::check as check_mirrors;
pub(crate) use owners::Owners;
pub(crate) use queued::Queued;
pub(crate) use replicas::ReplicasAtRest;
pub(crate) use replies::Replies;
pub(crate) use rounds::Rounds;

/// The state of all checks.
pub(crate) struct Invariants {
    pub(crate) ledger: Ledger,
    pub(crate) owners: Owners,
    pub(crate) knowledge: Knowledge,
    pub(crate) queued: Queued,
    pub(crate) replies: Replies,
    pub(crate) hops: Hops,
    pub(crate) bounded: Bounded,
    pub(crate) merged: Merged,
    pub(crate) rounds: Rounds,
    /// `None` if the technique ignores intents.
    pub(crate) intents: Option<Intents>,
}
