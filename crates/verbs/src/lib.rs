#![deny(unsafe_code)]
#![cfg_attr(not(feature = "verbs"), allow(rustdoc::broken_intra_doc_links))]
#![doc = include_str!("../README.md")]
#![cfg_attr(
    feature = "verbs",
    doc = "\n\nStart at [`Card::find`], which chooses a port; [`Memory`] is what a card may access, [`Completions`] \
           tells what has ended, and [`QueuePair`] is a connection."
)]
//!
//! `unsafe` code is in one module, `ffi`. Absent on purpose: protocols, a way to exchange the addresses of
//! queue pairs, datagrams, atomic operations.

#[cfg(feature = "verbs")]
mod card;
#[cfg(feature = "verbs")]
mod error;
#[cfg(feature = "verbs")]
mod ffi;
#[cfg(feature = "verbs")]
mod peer;

#[cfg(feature = "verbs")]
pub use card::Card;
#[cfg(feature = "verbs")]
pub use error::DeviceError;
#[cfg(feature = "verbs")]
pub use ffi::{Access, Completion, Completions, Domain, Limits, Memory, Place, QueuePair, Room};
#[cfg(feature = "verbs")]
pub use peer::{Pair, Path};
