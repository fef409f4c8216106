#![doc = include_str!("../README.md")]
//!
//! Start at [`workload::run`]: one seed of a random workload on a simulated cluster. Checkers judge the
//! values that workers saw. They need only the calls and their results, so the tests of real processes use
//! them too:
//!
//! | module | what it checks |
//! | --- | --- |
//! | [`history`] | operations are sequentially consistent per key, and every push is applied once |
//! | [`lanes`] | a value is a sum of pushes: each worker counts its pushes in a lane of its own |
//! | [`registers`] | a pull returns one whole value that was set, never one known to be overwritten |
//! | `staleness` | a pull sees every push that its staleness bound, a synchronisation or a rest guarantees |
//!
//! [`checker::Checker`] checks invariants of nodes and messages. It is a probe of a simulated cluster
//! ([`intendant_sim::cluster::Probe`]), because these checks need access to the engines' state.
//!
//! [`lapser::run`] is one seed of nodes that share items by one-sided operations.
//!
//! [`restart::run`] is one seed of a training that makes checkpoints, crashes, and starts again.
//!
//! [`muster::run`] is one seed of processes that look for the next view of a run.
//!
//! This crate has no threads, reads no clock and prints nothing. It writes files only for [`restart`], into a
//! temporary folder. All randomness comes from the seed.
#![forbid(unsafe_code)]

pub mod checker;
pub mod history;
mod invariants;
pub mod lanes;
pub mod lapser;
pub mod muster;
pub mod registers;
pub mod restart;
mod staleness;
pub mod views;
pub mod workload;
