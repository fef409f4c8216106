#![doc = include_str!("../README.md")]
//!
//! Start at [`workload::run`]: one seed of a random workload on a simulated cluster. Three checkers judge
//! what workers saw. They need nothing but the calls and their results, so they judge real processes as well:
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`history`] | whether operations are sequentially consistent per key, and every push counts once |
//! | [`lanes`] | whether pushes can make a value: each worker has a lane of its own in it |
//! | [`registers`] | the same for values that workers overwrite |
//! | `staleness` | whether a pull saw what its staleness bound, a synchronisation or a rest promises |
//!
//! Invariants of nodes and messages, which need to look inside of engines, belong to the simulated cluster
//! ([`intendant_sim::cluster`]).
//!
//! Absent on purpose: threads, clocks, randomness other than the seed's, printing.
#![forbid(unsafe_code)]

pub mod history;
pub mod lanes;
pub mod registers;
mod staleness;
pub mod workload;
