#![doc = include_str!("../README.md")]
//!
//! Modules: [`data`] reads and generates matrices. `model` is the arithmetic of one entry. `division` divides
//! entries among workers, for all algorithms. `batch` holds what one training step needs. `frequency` counts
//! how often keys are accessed. [`Mf`] is the task composed of these; [`Errors`] evaluates it. The binary
//! adds flags, the resolved plan, and the export of a trained model.
//!
//! This crate has no threads, sockets or clocks, and no knowledge of where parameters are.
#![forbid(unsafe_code)]

mod batch;
mod division;
mod evaluate;
mod frequency;
mod model;
mod task;

pub use intendant_ratings as data;

pub use batch::Batch;
pub use division::Algorithm;
pub use evaluate::Errors;
pub use model::{Optimizer, Scope};
pub use task::{Config, Mf, Scratch};
