#![doc = include_str!("../README.md")]
//!
//! [`open`] and [`lines`] read text, plain or in Zstandard's format ([`ZstdReader`]); [`Names`] and [`NameIndex`] number names;
//! [`Matrix`] and [`write_text`] write files that appear whole or not at all, [`remove`] those that a model does not have.
//!
//! Absent on purpose: any data format in the sense of columns and what they mean. Applications have those.
#![forbid(unsafe_code)]

mod matrix;
mod names;
mod text;
mod zstd;

pub use matrix::{Matrix, WriteError, remove, write_text};
pub use names::{NameIndex, Names};
pub use text::{LINE_BYTES_MAX, TextError, lines, open};
pub use zstd::ZstdReader;
