#![doc = include_str!("../README.md")]
//!
//! Modules: [`data`] reads and generates streams. `shape` has the sizes of sketches, `hash` the functions,
//! `estimate` computes counts of items from the cells. `batch` converts a piece of the stream to the amounts
//! that it adds to the sketch. `summary` keeps candidates for heavy hitters. [`Counting`] is the task
//! composed of these; `evaluate` checks and queries a sketch. `saved` has the files of exported sketches, and
//! asks them. The binary adds flags, the resolved plan, the export, and the command that asks.
//!
//! This crate has no threads, sockets or clocks, and no knowledge of where cells are.
#![forbid(unsafe_code)]

mod batch;
mod config;
pub mod data;
mod estimate;
mod evaluate;
mod hash;
pub mod saved;
mod shape;
mod summary;
mod task;

pub use batch::Batch;
pub use config::{BLOCK_DEFAULT, Config, DELTA_DEFAULT, Sizes};
pub use estimate::Estimator;
pub use evaluate::{Estimated, Results};
pub use hash::{Hashes, MultiplyShift, Row};
pub use shape::{Kind, Shape};
pub use summary::Summary;
pub use task::{COUNTERS, Counting, CountingError, INSERTED, Scratch};
