#![doc = include_str!("../README.md")]
//!
//! The map: [`data`] reads or generates graphs; `model` is ComplEx and RESCAL as arithmetic, `matrix` the door to the matrix
//! library; `batch` is what one training step needs, `softmax` and `logistic` are its losses; [`Clusters`] gives nodes triples
//! of their own, `share` orders them and deals them out; `frequency` tells how often keys are accessed; [`Kge`] puts them
//! together as a task; [`Ranking`] evaluates. The binary adds flags, the plan they resolve to, and the export of a trained
//! model.
//!
//! Absent on purpose: threads other than those of the evaluation, sockets, clocks, and any word about where parameters are.
#![deny(unsafe_code)]

mod batch;
mod cluster;
mod config;
pub mod data;
mod evaluate;
mod frequency;
mod logistic;
mod matrix;
mod model;
mod share;
mod softmax;
mod task;

pub use batch::{Batch, Scratch};
pub use cluster::Clusters;
pub use config::{Cluster, Config, ConfigError, Loss};
pub use evaluate::Ranking;
pub use model::{ModelKind, Penalties, Scorer};
pub use task::Kge;
