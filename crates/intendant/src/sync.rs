//! The primitives from which the inbox is built. For model checking, `tests/bell.rs` compiles the inbox
//! against another module with the same items.

pub(crate) use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
pub(crate) use tokio::sync::Notify;
