#![doc = include_str!("../README.md")]
//!
//! Start at [`Model`]: entries and settings. A [`Block`] is the part of a chain that one node computes; its
//! documentation has the order of calls. [`Item`]s are the values that blocks exchange. Inside, `row` and
//! `hyper` draw, `linalg` is their arithmetic, `moments` and `tree` sum in a fixed order, `random` makes the
//! random numbers, `predict` averages. [`Quantity`] names the state from which a chain continues.
//!
//! This crate deliberately has no threads, clocks, files or network. The caller runs the [`Task`]s of a step
//! and carries items from block to block.
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
