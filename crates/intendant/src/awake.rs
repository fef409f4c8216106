//! Counts the workers of a node that are awake. While none is awake, a channel may use its core without
//! delaying a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of workers of a node that are awake: all but those that sleep until something arrives. Clones
/// are cheap and share the count.
///
/// All accesses are relaxed. The count protects nothing, and a thread sees its own changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Awake(Arc<AtomicUsize>);

/// A worker that sleeps. Dropping this value ends the sleep.
#[must_use = "the worker counts as asleep as long as this lives"]
pub(crate) struct Asleep<'a>(&'a Awake);

impl Awake {
    /// A worker begins, or goes on. The thread that wakes a worker calls this, so that the count is right
    /// before the worker gets a core.
    pub(crate) fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// A worker is about to sleep, or ends.
    pub(crate) fn end(&self) {
        let before = self.0.fetch_sub(1, Ordering::Relaxed);
        debug_assert_ne!(before, 0, "more workers sleep than there are");
    }

    /// A worker sleeps until the returned value is dropped, e.g. in a meeting.
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
