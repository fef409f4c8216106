//! The primitives that mailboxes are built from. For model checking, mailboxes are compiled against another
//! file with the same items.

pub(crate) use intendant_segment::Segment;
pub(crate) use std::sync::atomic::{Ordering, fence};

/// Groups of 4,096 hints.
pub(crate) const GROUPS: usize = 16;
