#![doc = include_str!("../README.md")]
//!
//! Start at [`Cluster`](cluster::Cluster): the engines of all nodes and the queues and connections between
//! them, event by event. [`run_task`] trains a task on one, in virtual time. The modules by subject:
//!
//! | module | subject |
//! | --- | --- |
//! | [`cluster`] | nodes, workers, channels, connections; calls of workers and the events that follow |
//! | [`Delays`] | durations: a [`Network`], a [`Machine`], and the length that values count as ([`Charge`]) |
//! | [`presets`] | networks and machines of the papers, and files with others |
//! | [`Faults`] | slow and parted connections, slow nodes |
//! | `invariants/` | what must hold at every event; the cluster checks it itself |
//! | [`reach`] | counts of the situations that a run was in |
//! | [`meeting`] | quiescence and snapshots, for programs that drive a cluster |
//!
//! Absent on purpose: threads, clocks, randomness other than the seed's, printing, and the protocol: engines,
//! codec and technique are those that ship.
#![forbid(unsafe_code)]

pub mod cluster;
mod delays;
mod dice;
mod facility;
mod faults;
mod invariants;
mod lane;
mod machine;
pub mod meeting;
mod network;
pub mod presets;
mod queue;
pub mod reach;
mod shell;
mod trace;

pub use delays::{Delays, Spread};
pub use dice::Dice;
pub use facility::Load;
pub use faults::{Episode, Fault, FaultError, Faults, PARTITION_NS_MAX};
pub use invariants::{Finding, Violation};
pub use machine::{Charge, Machine};
pub use network::Network;
pub use shell::{EpochOutcome, Observer, TaskConfig, TaskFailure, TaskOutcome, run_task};
