#![doc = include_str!("../README.md")]
//!
//! Modules: [`data`] reads or generates graphs. `model` is the arithmetic of the models, `matrix`
//! calls the matrix library. `batch` holds what one training step needs, `scratch` what a worker keeps
//! between steps; `softmax` and `logistic` are the two losses. [`Clusters`] assigns triples to nodes, `share`
//! orders them and deals them out to workers. `frequency` counts how often keys are accessed. [`Kge`] is the
//! task composed of these; [`Ranking`] evaluates it. The binary adds flags, the resolved settings, and the
//! export of a trained model.
//!
//! This crate starts no threads except those of the evaluation. It has no sockets, no clock, and no knowledge
//! of where parameters are.
#![forbid(unsafe_code)]

mod answer;
mod baseline;
mod batch;
mod cluster;
mod config;
pub mod data;
mod evaluate;
mod frequency;
mod logistic;
mod model;
mod scratch;
mod share;
mod softmax;
mod task;
mod triple;

pub use answer::{Question, Side, Trained};
pub use batch::Batch;
pub use cluster::Clusters;
pub use config::{Cluster, Config, Loss};
pub use evaluate::Ranking;
pub use model::{Defaults, Facts, ModelKind, NUMBERS_MAX, Penalties, Scorer};
pub use scratch::Scratch;
pub use task::Kge;
