//! The primitives that slots are built from. The model checker compiles slots against another file of this
//! shape.

pub(crate) use std::sync::atomic::{Ordering, fence};
