//! The primitives that the board is built from. Model checking compiles it against another file of this shape
//! (`tests/board.rs`).

pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering, fence};
