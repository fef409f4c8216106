//! The primitives that rings are built from. For model checking, rings are compiled against another file with
//! the same items.

#[cfg(target_os = "linux")]
pub(crate) use intendant_segment::Segment;
pub(crate) use std::sync::atomic::{Ordering, fence};

/// Other systems have no memory that can be sealed, and so no rings.
#[cfg(not(target_os = "linux"))]
#[derive(Clone, Debug)]
pub(crate) enum Segment {}

#[cfg(not(target_os = "linux"))]
impl Segment {
    pub(crate) fn words(&self) -> usize {
        match *self {}
    }

    pub(crate) fn load(&self, _at: usize, _order: Ordering) -> u64 {
        match *self {}
    }

    pub(crate) fn store(&self, _at: usize, _value: u64, _order: Ordering) {
        match *self {}
    }

    pub(crate) fn swap(&self, _at: usize, _value: u64, _order: Ordering) -> u64 {
        match *self {}
    }

    pub(crate) fn read_bytes(&self, _at: usize, _into: &mut [u8]) {
        match *self {}
    }

    pub(crate) fn write_bytes(&self, _at: usize, _from: &[u8]) {
        match *self {}
    }
}
