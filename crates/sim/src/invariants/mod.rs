//! What must hold at every step of every run; one file each.
//!
//! | file | invariant |
//! | --- | --- |
//! | `ledger` | every hand-over continues the one before it, in the order in which homes decided |
//! | `owners` | a key has one owner, which alone holds its value, or the value is in flight |
//! | `knowledge` | a node's knowledge of locations was true once and is never replaced by older knowledge |
//! | `queued` | an access that arrives before its key waits for the key, and is served on arrival |
//! | `replies` | every deferred key of an operation is answered exactly once, to the requesting worker |
//! | `hops` | a request is forwarded a bounded number of times |
//! | `fifo` | a connection keeps order (a check of the simulator itself: everything else relies on it) |
//! | `bounded` | channels hold what workers submitted and wait for what they requested, nothing else |
//! | `progress` | a run ends within a bounded number of events, and not before all workers are done |
//! | `quiet` | when the quiescence protocol ends, nothing is in flight |
//! | `merged` | the owner of a key merges every delta of a replica once, and a version names one value |
//! | `echo` | an owner sends a holder nothing that the holder already has |
//! | `rounds` | after each round of an all-reduce, all nodes agree to the bit |
//! | `copies` | at rest, all copies of a key are equal to the bit, and owners know who has one |
//! | `choice` | owners apply the technique's rule to the active intents that they know of |
//! | `intents` | nodes count their workers' active intents, request these keys, and release them afterwards |
//! | `cover` | a snapshot has every key of its range exactly once |
//!
//! What workers see in values is checked by the crate `intendant-checkers`, from calls and their results
//! alone.

mod bounded;
pub(crate) mod choice;
mod copies;
mod cover;
mod echo;
mod fifo;
mod hops;
pub(crate) mod intents;
mod knowledge;
mod ledger;
mod merged;
mod owners;
mod progress;
mod queued;
mod quiet;
mod replies;
mod rounds;

pub(crate) use bounded::Bounded;
pub(crate) use copies::Copies;
pub(crate) use cover::Cover;
pub(crate) use fifo::Fifo;
pub(crate) use hops::Hops;
pub(crate) use intents::Intents;
pub(crate) use knowledge::Knowledge;
pub(crate) use ledger::Ledger;
pub(crate) use merged::{Asked, Merged, Promoted, Told};
pub(crate) use owners::Owners;
pub(crate) use progress::Progress;
pub(crate) use queued::Queued;
pub(crate) use quiet::{InFlight, check as check_quiet};
pub(crate) use replies::Replies;
pub(crate) use rounds::Rounds;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{check}: {what} (at {at_ns} ns, event {event})")]
pub struct Violation {
    /// Which check found it: the name of its file, or `protocol` if an engine refused what a peer sent.
    pub check: &'static str,
    /// Virtual time.
    pub at_ns: u64,
    /// Number of the event.
    pub event: u64,
    /// What was found.
    pub what: String,
}

/// A check's name and finding, before time and event are known.
pub type Finding = (&'static str, String);

/// The state of all checks.
pub(crate) struct Invariants {
    pub(crate) ledger: Ledger,
    pub(crate) owners: Owners,
    pub(crate) knowledge: Knowledge,
    pub(crate) queued: Queued,
    pub(crate) replies: Replies,
    pub(crate) hops: Hops,
    pub(crate) fifo: Fifo,
    pub(crate) bounded: Bounded,
    pub(crate) merged: Merged,
    pub(crate) rounds: Rounds,
    /// Where intents are acted on, in a run that looks for errors.
    pub(crate) intents: Option<Intents>,
    pub(crate) progress: Progress,
}
