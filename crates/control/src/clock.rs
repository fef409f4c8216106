//! The clock whose times are passed to code without I/O, for its decisions and counts.
//!
//! Channels read it at every input, so its functions are inlined: they are then compiled, and optimised, with
//! the channel. This crate itself is compiled without optimisation.

use intendant_core::Tick;
use std::time::{Duration, Instant};

/// A monotonic clock that starts at 0.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock(Instant);

#[inline]
#[expect(clippy::disallowed_methods, reason = "heartbeats and relocation times need real, monotonic time")]
fn instant() -> Instant {
    Instant::now()
}

impl MonotonicClock {
    /// A clock whose time is 0 now.
    #[must_use]
    #[inline]
    pub fn start() -> Self {
        Self(instant())
    }

    /// The time of the clock.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Tick {
        Tick(instant().duration_since(self.0).as_micros() as u64)
    }

    /// The moment at which this clock shows `at`, for timers; at most a day ahead.
    #[must_use]
    #[inline]
    pub fn moment(&self, at: Tick) -> tokio::time::Instant {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let ahead = Duration::from_micros(at.0.saturating_sub(self.now().0));
        tokio::time::Instant::from_std(instant() + ahead.min(DAY))
    }
}
