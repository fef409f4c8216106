//! The keys of a shard that were noted for later processing, in that order.
//!
//! The shard's latch protects the list. A hint next to it can be read without the latch, so that a thread
//! that polls many shards latches only those with noted keys.

use crate::sync::{AtomicBool, Ordering, TrackedUnsafeCell};
use intendant_core::Key;

#[derive(Default)]
pub(crate) struct Noted {
    /// Whether `keys` has any. Written under the latch, read without it.
    any: AtomicBool,
    keys: TrackedUnsafeCell<Vec<Key>>,
}

impl Noted {
    /// Appends `key`. The list grows under the latch if it has to, the more rarely the longer it was before.
    ///
    /// # Safety
    /// The caller holds the latch of the shard.
    #[inline]
    pub(crate) unsafe fn push(&self, key: Key) {
        // SAFETY: the list is used only under the latch, which the caller holds; the reference ends with the
        // closure.
        let count = self.keys.with_mut(|keys| unsafe {
            (*keys).push(key);
            (*keys).len()
        });
        if count == 1 {
            // Relaxed: a hint. All stores happen under the latch, so the last of them agrees with the list.
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// Exchanges the list with `keys`, which must be empty, so that neither side allocates or frees anything
    /// here.
    ///
    /// # Safety
    /// The caller holds the latch of the shard.
    pub(crate) unsafe fn exchange(&self, keys: &mut Vec<Key>) {
        intendant_core::strict_assert!(keys.is_empty(), "keys would be noted that no caller noted");
        // SAFETY: as in `push`.
        self.keys.with_mut(|list| unsafe { std::ptr::swap(list, keys) });
        // Relaxed: as in `push`.
        self.any.store(false, Ordering::Relaxed);
    }

    /// Whether there are keys; needs no latch, so that may just not be true any more, or not be seen yet.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        // Relaxed: nothing is read because of the answer without taking the latch.
        self.any.load(Ordering::Relaxed)
    }
}
