#![doc = include_str!("../README.md")]
//!
//! # As a library
//!
//! The library is the sampler [Salakhutdinov & Mnih 2008], divided into blocks that exchange rows, as chapter
//! 4 of the Lapser thesis does. A block states which items it produces and consumes, which items its next
//! step needs, and by how many iterations these may be too old. So the same code runs on the threads of one
//! process, on nodes with one-sided communication, and in a simulator.
//!
//! ```rust
//! use bpmf::{Block, Config, Held, Model, Scratch};
//! use std::sync::Arc;
//!
//! // A matrix with a known pattern: cell (i, j) is 3 where i + j is even, and 1 elsewhere.
//! let cell = |i: u32, j: u32| (i, j, if (i + j) % 2 == 0 { 3.0 } else { 1.0 });
//! let cells = || (0..20).flat_map(move |i| (0..20).map(move |j| cell(i, j)));
//! let train = cells().filter(|(i, j, _)| (i * 7 + j * 3) % 5 != 0);
//! let test = cells().filter(|(i, j, _)| (i * 7 + j * 3) % 5 == 0);
//! let config = Config { rank: 2, alpha: 20.0, iterations: 60, burn_in: 20, ..Config::default() };
//! let model = Arc::new(Model::new(config, (20, 20), train, test, 2.0)?);
//!
//! // One block, which needs nothing of others.
//! let mut block = Block::new(Arc::clone(&model), 0, 1)?;
//! let mut scratch = Scratch::new();
//! while block.step().is_some() {
//!     assert!(block.needs().is_empty());
//!     for task in block.work()? {
//!         task.run(&mut scratch)?;
//!     }
//!     block.finish();
//! }
//! let total = model.total(block.sums(Some(Held::Test))).expect("the sums of all blocks");
//! assert!(total.rmse().expect("cells are held out") < 0.2);
//! let forecast = block.forecasts().next().expect("one of them");
//! assert!(forecast.low < forecast.value && forecast.value < forecast.high);
//! # Ok::<(), bpmf::BpmfError>(())
//! ```
//!
//! Start at [`Model`]: entries and settings. A [`Block`] is the part of a chain that one node computes; its
//! documentation has the order of calls. [`Item`]s are the values that blocks exchange. Inside, `row` and
//! `hyper` draw, `linalg` is their arithmetic, `moments` and `tree` sum in a fixed order, `random` makes the
//! random numbers, `predict` averages. [`Quantity`] names the state from which a chain continues. The binary
//! adds flags, threads, nodes (real and simulated), checkpoints and the export.
//!
//! The library has no threads, clocks, files or network. The caller runs the [`Task`]s of a step and carries
//! items from block to block.
#![forbid(unsafe_code)]

mod block;
mod config;
mod data;
mod error;
mod hyper;
mod item;
mod linalg;
mod moments;
mod predict;
mod quantity;
mod random;
mod row;
mod tree;

pub use block::{Block, Produced, Step, Task};
pub use config::{Config, RANK_MAX};
pub use data::{Cell, LEAVES_MAX, Model};
pub use error::{BpmfError, What};
pub use item::{Item, Need, Side};
pub use predict::{Forecast, Held, Posterior, Sums};
pub use quantity::Quantity;
pub use row::Scratch;

#[cfg(test)]
mod geweke_tests;
