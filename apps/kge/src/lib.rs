#![doc = include_str!("../README.md")]
//!
//! The map: [`data`] reads or generates graphs. `model` is the arithmetic of ComplEx and RESCAL, `matrix`
//! calls the matrix library. `batch` holds what one training step needs; `softmax` and `logistic` are its
//! losses. [`Clusters`] assigns triples to nodes, `share` orders them and deals them out to workers.
//! `frequency` counts how often keys are accessed. [`Kge`] is the task made of these; [`Ranking`] evaluates
//! it. The binary adds flags, the plan that they resolve to, and the export of a trained model.
//!
//! Absent on purpose: threads other than those of the evaluation, sockets, clocks, and the places of
//! parameters.
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
pub use config::{Cluster, Config, Loss};
pub use evaluate::Ranking;
pub use model::{ModelKind, Penalties, Scorer};
pub use task::Kge;
