#![doc = include_str!("../README.md")]
//!
//! Start at [`Export`], a folder that `--export` wrote, and [`Table`], one of its matrices. [`top()`] finds
//! rows. `product` calls the matrix library, `score` is the inner product that decides.
//!
//! This crate does not know what the rows of a table mean: applications do.
#![deny(unsafe_code)]

mod export;
pub mod product;
mod score;
mod table;
mod top;

pub use export::{Export, TrainedError};
pub use score::{norm, rounding_bound, score};
pub use table::Table;
pub use top::{Hit, top};
