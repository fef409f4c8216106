//! The primitives that mailboxes are built from. Model checking compiles mailboxes against another file of
//! this shape.

pub(crate) use intendant_segment::Segment;
pub(crate) use std::sync::atomic::{Ordering, fence};

/// Groups of 4,096 hints.
pub(crate) const GROUPS: usize = 16;
