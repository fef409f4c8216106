//! The primitives that the list of urgent replicas is built from. Model checking compiles it against other
//! ones (`crates/models`).

pub(crate) use intendant_core::lock;
pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
