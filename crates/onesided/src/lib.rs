#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]
//!
//! Start at [`Window`]: what a node can do with the memory of others, and what it learns of it.
//! [`MappedWindow`] is a window to segments that are mapped: [`in_process`] makes those of threads,
//! [`Host::connect`] those of processes of one host. With the feature `verbs`, the module `verbs` has windows
//! to nodes that an RDMA card reaches.
//!
//! Absent on purpose: what the words mean ([`intendant_segment::slot`] is one way), who may write which, a
//! way to tell the nodes each other's names, and `unsafe` code: that of memory is in `intendant-segment`, and
//! calls of the library of RDMA are in `intendant-verbs`.

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
