//! The keys of a shard that were noted for later processing, in the order in which they were noted.
//!
//! The shard's latch protects the list. A hint next to it can be read without the latch, so that a thread
//! that polls many shards latches only those with noted keys.

use crate::sync::{AtomicBool, Ordering, TrackedUnsafeCell};
use intendant_core::Key;

#[derive(Default)]
pub(crate) struct Noted {
    /// Whether `keys` has any elements. Written under the latch, read without it.
    any: AtomicBool,
    keys: TrackedUnsafeCell<Vec<Key>>,
}

impl Noted {
    /// Appends `key`. If the list must grow, it grows under the latch. The longer the list has been, the more
    /// rarely it grows.
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

    /// Whether there are keys. It takes no latch, so the answer may no longer be true, or a new key may not
    /// be visible yet.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        // Relaxed: a thread that reads keys because of the answer takes the latch first.
        self.any.load(Ordering::Relaxed)
    }
}
