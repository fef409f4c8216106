#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]
//!
//! Start at [`Window`], which describes what a node can do with the memory of others, and what it learns
//! about it. [`MappedWindow`] is a window to mapped segments: [`in_process`] makes windows for threads,
//! [`Host::connect`] makes windows for processes of one host. With the feature `verbs`, the module `verbs`
//! has windows to nodes that an RDMA card reaches.
//!
//! Absent on purpose: what the words mean ([`intendant_segment::slot`] is one way), who may write which, a
//! way to tell the nodes each other's names, and `unsafe` code: `intendant-segment` has that for memory, and
//! `intendant-verbs` has the calls of the RDMA library.

mod error;
mod event;
mod host;
mod link;
mod mailbox;
mod mapped;
mod packet;
mod sync;
#[cfg(feature = "verbs")]
pub mod verbs;
mod window;

pub use error::{ConnectError, WaitError, WindowError};
pub use event::{Event, HINTS};
pub use host::{Host, Name};
pub use mapped::{MappedWindow, in_process};
pub use packet::Secret;
pub use window::Window;
