//! The primitives that the inbox is built from. Model checking compiles it against another file of this shape
//! (`tests/bell.rs`).

pub(crate) use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
pub(crate) use tokio::sync::Notify;
