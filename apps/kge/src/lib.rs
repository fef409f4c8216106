#![doc = include_str!("../README.md")]
//!
//! The map: [`data`] reads graphs; `model` is ComplEx as arithmetic, `matrix` the door to the matrix library; `batch` is what
//! one training step needs, `softmax` and `logistic` are its losses; [`Kge`] puts them together as a task; [`Ranking`]
//! evaluates. The binary adds flags, the plan they resolve to, and the export of a trained model.
//!
//! Absent on purpose: threads other than those of the evaluation, sockets, clocks, and any word about where parameters are.
#![deny(unsafe_code)]

mod batch;
pub mod data;
mod evaluate;
mod logistic;
mod matrix;
mod model;
mod softmax;
mod task;

pub use batch::{Batch, Scratch};
pub use evaluate::Ranking;
pub use model::Penalties;
pub use task::{Config, ConfigError, Kge, Loss};
