#![doc = include_str!("../README.md")]
//!
//! Modules: [`data`] reads or generates text of any size. `course` orders its blocks and deals them out to
//! workers. `draw` skips frequent words and lays out windows. `batch` holds what one training step needs.
//! `model` is the arithmetic, `train` its loops. `frequency` counts how often keys are accessed. [`Word2vec`]
//! is the task composed of these; `evaluate` measures quality with [`Tests`]. [`Trained`] answers questions
//! about exported vectors. The binary adds flags, the resolved plan, the export of word vectors, and the
//! commands that ask for some.
//!
//! This crate starts no threads except those of the first pass over the text and of answers. It has no
//! sockets, no clock, and no knowledge of where parameters are.
#![forbid(unsafe_code)]

mod answer;
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

pub use answer::Trained;
pub use batch::Batch;
pub use config::Config;
pub use evaluate::{
    Analogies, Question, Rated, Section, Similarities, Tests, read_analogies, read_similarities,
};
pub use model::Optimizer;
pub use task::Word2vec;
pub use train::Scratch;
