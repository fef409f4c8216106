#![doc = include_str!("../README.md")]
//!
//! [`open`] and [`lines`] read text, plain or in Zstandard's format ([`ZstdReader`]). [`Names`] and
//! [`NameIndex`] number names; [`words`] makes words of them. [`Matrices`] and [`write_text`] write the files
//! of a model, [`safetensors_header`] and [`write_vector`] what is in some of them. [`check_gaps`] refuses
//! numbers that no file of its size needs.
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
