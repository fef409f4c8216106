#![doc = include_str!("../README.md")]
//!
//! The map: [`data`] reads and generates streams. `shape` has the sizes of sketches, `hash` the functions,
//! `estimate` what the cells say of an item. `batch` makes of a piece of the stream what it adds to the
//! sketch. `summary` keeps candidates for heavy hitters. [`Counting`] is the task made of these; `evaluate`
//! checks a sketch and asks it. `saved` has the files of exported sketches. The binary adds flags, the plan
//! that they resolve to, and the export.
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
