#![doc = include_str!("../README.md")]
//!
//! Start at [`Cluster`](cluster::Cluster): the engines of all nodes, and the queues and connections between
//! them, simulated event by event. [`run_task`] trains a task on a cluster in virtual time. The modules by
//! subject:
//!
//! | module | subject |
//! | --- | --- |
//! | [`cluster`] | nodes, workers, channels, connections; calls of workers and the events that follow |
//! | [`Delays`] | durations: a [`Network`], a [`Machine`], and factors for the cost of values ([`Charge`]) |
//! | [`presets`] | networks and machines of the papers, and parsers for files that describe others |
//! | [`Faults`] | slow connections, slow nodes, partitions, crashes |
//! | [`CutConfig`], [`Origin`] | checkpoints of simulated training, and runs that continue from one |
//! | `bound/` | what a parameter manager that knows the future must send ([`Staleness`]) |
//! | [`cluster::Probe`] | observers of a cluster, which see what happens and may object |
//! | `invariants/` | what the simulator checks of itself |
//! | [`reach`] | counts of the situations that a run has reached |
//! | [`onesided`] | segments that nodes read and write one-sidedly: torn reads, lost hints, nodes that end |
//! | [`muster`] | processes that agree on the next view of a run whose nodes change |
//! | [`meeting`] | quiescence and snapshots, for programs that drive a cluster |
//!
//! This crate has no threads, reads no clock and prints nothing. It writes files only if a run is to make
//! checkpoints ([`CutConfig::folder`]). All randomness comes from the seed. Engines,
//! codec and techniques are the crates used in production; this crate does not implement the protocol.
#![forbid(unsafe_code)]

mod bound;
pub mod cluster;
mod core;
mod delays;
mod dice;
mod facility;
mod faults;
mod invariants;
mod lane;
mod machine;
pub mod meeting;
pub mod muster;
mod network;
pub mod onesided;
pub mod presets;
mod queue;
pub mod reach;
mod shell;
mod spread;
mod trace;

pub use bound::Staleness;
pub use delays::Delays;
pub use dice::Dice;
pub use facility::Load;
pub use faults::{Episode, Fault, FaultError, Faults, PARTITION_NS_MAX};
pub use invariants::{Finding, Violation};
pub use machine::{Charge, Machine};
pub use network::Network;
pub use shell::{
    Cut, CutConfig, EpochOutcome, Moment, Observer, Origin, TaskConfig, TaskFailure, TaskOutcome, Trained,
    Unevenness, observe_task, resume_task, run_task,
};
pub use spread::Spread;
