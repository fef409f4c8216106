#![doc = include_str!("../README.md")]
//!
//! Modules: [`data`] reads and generates documents. `layout` defines the keys, `course` which worker trains
//! which documents in which order. `batch` holds what one training step needs, `sampler` is the arithmetic of
//! one token. `frequency` counts how often keys are accessed. [`Lda`] is the task composed of these.
//! `evaluate` measures it with `fold`, which infers the topics of a document; [`Summary`] has the topics.
//! [`Trained`] answers with a model that was exported. The binary adds flags, the resolved plan, the export
//! of a trained model, and commands that use one.
//!
//! This crate has no threads, sockets or clocks, and no knowledge of where parameters are.
#![forbid(unsafe_code)]

mod answer;
mod batch;
mod config;
mod course;
pub mod data;
mod evaluate;
mod fold;
mod frequency;
mod layout;
mod sampler;
mod summary;
mod task;

pub use answer::{Mixer, Trained};
pub use batch::Batch;
pub use config::Config;
pub use evaluate::Mixtures;
pub use summary::{Collector, Summary, Topic};
pub use task::{Lda, LdaError, Scratch, WordCounts};
