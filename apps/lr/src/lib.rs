#![doc = include_str!("../README.md")]
//!
//! Modules: [`data`] reads and generates rows of sparse features. `model` is the arithmetic of a weight.
//! `batch` holds what one training step needs. `proximal` trains block by block. `frequency` counts how often
//! keys are accessed. [`Lr`] is the task composed of these; `evaluate` measures it by [`metrics`]. The binary
//! adds flags, the resolved plan, the export of a trained model, and predictions.
//!
//! This crate has no threads, sockets or clocks, and no knowledge of where parameters are.
#![forbid(unsafe_code)]

mod batch;
mod config;
pub mod data;
mod evaluate;
mod frequency;
pub mod metrics;
mod model;
mod proximal;
mod task;
mod weights;

pub use batch::{Batch, RowsBatch};
pub use config::Config;
pub use model::{Optimizer, log_loss, sigmoid, slope};
pub use proximal::BlockBatch;
pub use task::{Lr, Scratch};
pub use weights::Weights;
