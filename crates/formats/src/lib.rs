#![doc = include_str!("../README.md")]
//!
//! [`open`] and [`lines`] read text, plain or compressed by gzip or zstd ([`ZstdReader`]). [`Names`] and
//! [`NameIndex`] number names; [`words`] turns names into words. [`Matrices`] and [`write_text`] write the
//! files of a model, [`safetensors_header`] and [`write_vector`] the content of some of them. [`check_gaps`]
//! refuses a file that leaves out too many numbers.
//!
//! The applications, not this crate, define columns and their meaning.
#![forbid(unsafe_code)]

mod gaps;
mod matrix;
mod names;
mod text;
mod vectors;
mod zstd;

pub use gaps::check_gaps;
pub use matrix::{Matrices, Matrix, WriteError, npy_rows, write_text};
pub use names::{NameIndex, Names, words};
pub use text::{Compression, LINE_BYTES_MAX, TextError, lines, lines_up_to, open};
pub use vectors::{safetensors_header, write_vector};
pub use zstd::ZstdReader;
