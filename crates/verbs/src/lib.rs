#![cfg(feature = "verbs")]
#![deny(unsafe_code)]
#![doc = include_str!("../README.md")]
//!
//! Start at [`Card::find`], which chooses a port; [`Memory`] is what a card may access, [`Completions`] tells
//! what has ended, and [`QueuePair`] is a connection. `unsafe` code is in one module, `ffi`.
//!
//! Absent on purpose: protocols, a way to tell the nodes each other's [`Pair`]s and [`Path`]s, datagrams,
//! atomic operations.

mod card;
mod error;
mod ffi;

pub use card::{Card, Pair, Path};
pub use error::DeviceError;
pub use ffi::{Access, Completion, Completions, Domain, Limits, Memory, Place, QueuePair, Room};
