//! A latch of one byte: spin briefly, then park for a bounded time.
//!
//! A thread latches a shard for one copy of a value, well under a microsecond (a snapshot holds the latch
//! longer, but then no worker trains). A waiter that has spun longer than that waits for a holder that lost
//! its core, and the holder's time slice decides how long. So no thread wakes waiters: they look again at
//! growing intervals (of at most a millisecond). No wake-up can be lost, and releasing the latch is a plain
//! store. The only cost that remains is one locked instruction per latched section.

use crate::sync::{AtomicU8, Ordering, relax};

const FREE: u8 = 0;
const HELD: u8 = 1;

/// Mutual exclusion for very short sections. Not fair, not reentrant, not poisoned by panics.
#[derive(Debug)]
pub struct Latch {
    state: AtomicU8,
}

impl Default for Latch {
    fn default() -> Self {
        Self::new()
    }
}

impl Latch {
    /// A free latch.
    #[must_use]
    pub fn new() -> Self {
        Self { state: AtomicU8::new(FREE) }
    }

    /// Takes the latch, waiting for it if necessary.
    #[inline]
    pub fn lock(&self) -> LatchGuard<'_> {
        // Acquire: pairs with the Release in `LatchGuard::drop`; what the last holder wrote is visible from
        // here on. SeqCst, here and below: see `bias`.
        if self.state.compare_exchange(FREE, HELD, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            self.lock_contended();
        }
        LatchGuard::of(&self.state)
    }

    /// Whether the latch is free at this moment. If it is, what the last holder wrote is visible from here
    /// on.
    pub(crate) fn is_free(&self) -> bool {
        // SeqCst: see `bias`. It acquires what the last holder wrote.
        self.state.load(Ordering::SeqCst) == FREE
    }

    /// Takes the latch if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<LatchGuard<'_>> {
        // SeqCst: as in `lock`.
        let taken = self.state.compare_exchange(FREE, HELD, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        taken.then(|| LatchGuard::of(&self.state))
    }

    #[cold]
    fn lock_contended(&self) {
        let mut attempt = 0;
        loop {
            // Relaxed: only a hint that the exchange is worth its bus traffic.
            if self.state.load(Ordering::Relaxed) == FREE
                // SeqCst: as in `lock`.
                && self.state.compare_exchange(FREE, HELD, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            {
                return;
            }
            relax(attempt);
            attempt = attempt.saturating_add(1);
        }
    }
}

/// While this guard lives, its thread holds the latch, or is inside without one.
#[must_use = "the latch is released when the guard is dropped"]
#[derive(Debug)]
pub struct LatchGuard<'a> {
    state: &'a AtomicU8,
}

impl<'a> LatchGuard<'a> {
    pub(crate) const FREE: u8 = FREE;
    pub(crate) const HELD: u8 = HELD;

    /// A guard that makes `state` free when it is dropped.
    #[inline]
    pub(crate) fn of(state: &'a AtomicU8) -> Self {
        Self { state }
    }
}

impl Drop for LatchGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire of the next holder.
        self.state.store(FREE, Ordering::Release);
    }
}
