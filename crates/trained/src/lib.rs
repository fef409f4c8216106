#![doc = include_str!("../README.md")]
//!
//! Start at [`Export`], a folder that `--export` wrote, and [`Table`], one of its matrices. [`top()`] finds
//! rows. [`Named`] has their names, and [`Style`] shows answers. `product` calls the matrix library, `score`
//! is the inner product that decides.
//!
//! This crate does not know what the rows of a table mean: applications do.
#![deny(unsafe_code)]

mod answers;
mod export;
mod input;
pub mod product;
mod score;
mod table;
mod top;

pub use answers::{Answered, Named, Style, asked, finite, json_line, measures, object, questions, words};
pub use export::{Export, MANIFEST, TrainedError};
pub use input::{Answers, answer_while_reading, input};
pub use score::{norm, rounding_bound, score};
pub use table::Table;
pub use top::{Hit, top};
