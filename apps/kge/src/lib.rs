#![doc = include_str!("../README.md")]
//!
//! Modules: [`data`] reads or generates graphs. `model` is the arithmetic of the models. `batch` holds what
//! one training step needs, `scratch` what a worker keeps between steps; `softmax` and `logistic` are the two
//! losses. [`Clusters`] assigns triples to nodes, `share` orders them and deals them out to workers.
//! `frequency` counts how often keys are accessed. [`Kge`] is the task composed of these; [`Ranking`]
//! evaluates it, and `baseline` is what a model is compared with. [`Trained`] answers questions about an
//! exported model. The binary adds flags, the resolved settings, the export of a trained model, and the
//! commands that ask one.
//!
//! This crate starts no threads except those of evaluations and answers. It has no sockets, no clock, and no
//! knowledge of where parameters are.
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
pub use model::{Defaults, Facts, ModelKind, Moduli, NUMBERS_MAX, Penalties, Scorer};
pub use scratch::Scratch;
pub use task::Kge;
