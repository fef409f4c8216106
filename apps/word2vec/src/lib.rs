#![doc = include_str!("../README.md")]
//!
//! The map: [`data`] reads or generates text of any size; `course` orders its blocks and deals them out; `draw` skips frequent
//! words and lays windows; `batch` is what one training step needs; `model` is the arithmetic, `train` its loops; `frequency` tells
//! how often keys are accessed; [`Word2vec`] puts them together as a task; `evaluate` measures quality by what [`Tests`] ask. The
//! binary adds flags, the plan they resolve to, the files with questions, and the export of word vectors.
//!
//! Absent on purpose: threads other than those of the first pass over the text, sockets, clocks, and any word about where
//! parameters are.
#![forbid(unsafe_code)]

mod batch;
mod config;
mod course;
pub mod data;
mod draw;
mod evaluate;
mod frequency;
mod model;
mod task;
mod train;

pub use batch::Batch;
pub use config::{Config, ConfigError};
pub use evaluate::{Analogies, Question, Rated, Section, Similarities, Tests};
pub use model::Optimizer;
pub use task::Word2vec;
pub use train::Scratch;
