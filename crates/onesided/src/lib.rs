#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]
//!
//! Start at [`Window`]: what a node can do with the memory of others, and what it learns of it.
//! [`MappedWindow`] is a window to segments that are mapped: [`in_process`] makes those of threads,
//! [`Host::connect`] those of processes of one host.
//!
//! Absent on purpose: what the words mean ([`intendant_segment::slot`] is one way), who may write which, a
//! way to tell the nodes each other's names, and `unsafe` code, all of which is in `intendant-segment`.

mod error;
mod host;
mod link;
mod mailbox;
mod mapped;
mod packet;
mod sync;
mod window;

pub use error::{ConnectError, WaitError, WindowError};
pub use host::{Host, Name};
pub use mapped::{MappedWindow, in_process};
pub use packet::Secret;
pub use window::{Event, HINTS, Window};
