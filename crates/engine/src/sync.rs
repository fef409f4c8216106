//! The primitives that the list of urgent replicas uses. Model checking (`crates/models`) compiles the list
//! against other primitives.

pub(crate) use intendant_core::lock;
pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
