#![doc = include_str!("../README.md")]
//!
//! Modules: [`data`] reads and generates matrices. `model` is the arithmetic of one entry. `division` divides
//! entries among workers, for all algorithms. `batch` holds what one training step needs. `frequency` counts
//! how often keys are accessed. `penalties` derives what regularises from the data. [`Mf`] is the task
//! composed of these, with a [`Config`]; [`Errors`] evaluates it. [`Trained`] answers questions about an
//! exported model. The binary adds flags, the resolved plan, the export of a trained model, and the commands
//! that ask one.
//!
//! This crate starts no threads except those of answers. It has no sockets, no clock, and no knowledge of
//! where parameters are.
#![forbid(unsafe_code)]

mod answer;
mod batch;
mod config;
mod division;
mod evaluate;
mod frequency;
mod model;
mod penalties;
mod task;

pub use intendant_ratings as data;

pub use answer::{Axis, Trained};
pub use batch::Batch;
pub use config::Config;
pub use division::Algorithm;
pub use evaluate::Errors;
pub use model::{Optimizer, Scope};
pub use penalties::{Penalties, Weights};
pub use task::{Mf, Scratch};
