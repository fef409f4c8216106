//! The primitives that the board is built from. The model checker compiles the board against another file of
//! this shape (`tests/board.rs`).

pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering, fence};
