#![doc = include_str!("../README.md")]
//!
//! The map: [`data`] reads and generates matrices; `model` is the arithmetic of one entry; `division` says who trains which
//! entries, for both algorithms; `batch` is what one training step needs; `frequency` tells how often keys are accessed; [`Mf`]
//! puts them together as a task; [`Errors`] evaluates. The binary adds flags, the plan they resolve to, and the export of a
//! trained model.
//!
//! Absent on purpose: threads, sockets, clocks, and any word about where parameters are.
#![forbid(unsafe_code)]

mod batch;
pub mod data;
mod division;
mod evaluate;
mod frequency;
mod model;
mod task;

pub use batch::Batch;
pub use division::Algorithm;
pub use evaluate::Errors;
pub use model::{Optimizer, Scope};
pub use task::{Config, ConfigError, Mf, Scratch};
