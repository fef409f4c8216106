#![doc = include_str!("../README.md")]
//!
//! Start at [`Segment`], words of 64 bits that any thread or process may read and write at any time; then
//! [`slot`], which gives a key's value, with its clock, a place in a segment such that a reader detects a
//! value that was written while it was read. [`mirror`] has places for values that a process keeps elsewhere.
//! [`passing`] sends a segment's descriptor to another process, and [`memory`] tells how much memory is left.
//!
//! The crate intentionally has no layouts (the caller says at which word a slot begins), no operations
//! between segments, and no waiting.
//!
//! All `unsafe` code of the crate is in `segment` and `copy`; each block names the invariant it relies on. No
//! reference to plain memory of a segment exists, only references to atomic words: values are copied out,
//! validated and then interpreted.

mod copy;
mod error;
pub mod memory;
pub mod mirror;
pub mod passing;
mod segment;
pub mod slot;
mod sync;

pub use error::SegmentError;
pub use segment::{Segment, View};
