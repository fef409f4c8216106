#![doc = include_str!("../README.md")]
//!
//! Start at [`Dataset`]. [`Dataset::read`] reads MatrixMarket files and tables of row, column and value;
//! [`Generator`] makes matrices of any size. [`Biases`] predict from the row and the column of a cell alone,
//! and [`Noise`] estimates what no prediction can explain. Rows and columns are numbered from 0; every
//! process that reads the same files numbers them equally. A cell that occurs several times is several
//! entries: two ratings of a film are two examples.
//!
//! This crate deliberately has no keys, no parameter values, and no division of entries among workers.
#![forbid(unsafe_code)]

mod biases;
mod dataset;
mod entry;
mod error;
mod generate;
mod ids;
mod market;
mod noise;
mod read;
mod table;

pub use biases::Biases;
pub use dataset::Dataset;
pub use entry::{ENTRIES_MAX, Entry};
pub use error::DataError;
pub use generate::{Generator, GeneratorError};
pub use ids::Ids;
pub use noise::Noise;
