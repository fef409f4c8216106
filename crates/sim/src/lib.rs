#![doc = include_str!("../README.md")]
//!
//! Start at [`workload::run`] (one seed of a random workload) or [`run_task`] (a training task in virtual
//! time). Both are programs on top of a [`Cluster`](cluster::Cluster): the engines of all nodes and what lies
//! between them, event by event. `invariants/` has what must hold at every step, [`history`] decides whether
//! what workers saw is sequentially consistent, [`reach`] counts the situations that runs must have been in.
//! [`Delays`] says how long things take: a [`Network`], a [`Machine`], and how long values count as
//! ([`Charge`]); [`presets`] has those of the papers, [`Faults`] what goes wrong.
//!
//! Absent on purpose: threads, clocks, randomness other than the seed's, printing, and the protocol: engines,
//! codec and technique are those that ship.
#![forbid(unsafe_code)]

pub mod cluster;
mod delays;
mod dice;
mod facility;
mod faults;
pub mod history;
mod invariants;
mod lane;
pub mod lanes;
mod machine;
mod meeting;
mod network;
pub mod presets;
mod queue;
pub mod reach;
pub mod registers;
mod shell;
mod trace;
pub mod workload;

pub use delays::{Delays, Spread};
pub use facility::Load;
pub use faults::{Episode, Fault, FaultError, Faults, PARTITION_NS_MAX};
pub use invariants::Violation;
pub use machine::{Charge, Machine};
pub use network::Network;
pub use shell::{EpochOutcome, Observer, TaskConfig, TaskFailure, TaskOutcome, run_task};
