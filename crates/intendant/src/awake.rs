//! How many workers of a node are awake. A channel may use its core as it likes while none is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the workers of a node that do not sleep until something arrives. Cheap to clone: clones are the
/// same count.
///
/// All accesses are relaxed. The count protects nothing; a thread that has just counted sees what it did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Awake(Arc<AtomicUsize>);

/// A worker that sleeps; dropped when it goes on.
#[must_use = "the worker counts as asleep as long as this lives"]
pub(crate) struct Asleep<'a>(&'a Awake);

impl Awake {
    /// A worker begins, or goes on. Who wakes it calls this, so that the count is right before the worker
    /// gets a core.
    pub(crate) fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// A worker is about to sleep, or ends.
    pub(crate) fn end(&self) {
        let before = self.0.fetch_sub(1, Ordering::Relaxed);
        debug_assert_ne!(before, 0, "more workers sleep than there are");
    }

    /// A worker sleeps until the value is dropped, e.g. in a meeting.
    pub(crate) fn sleep(&self) -> Asleep<'_> {
        self.end();
        Asleep(self)
    }

    /// Whether no worker is awake.
    pub(crate) fn is_none(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.0.begin();
    }
}
