//! Knowledge graph embeddings.
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
