//! The only place that reads the clock for decisions and counts of code without I/O.

use intendant_core::Tick;
use std::time::{Duration, Instant};

/// A monotonic clock that starts at 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MonotonicClock(Instant);

#[expect(clippy::disallowed_methods, reason = "heartbeats and relocation times need real, monotonic time")]
fn instant() -> Instant {
    Instant::now()
}

impl MonotonicClock {
    pub(crate) fn start() -> Self {
        Self(instant())
    }

    pub(crate) fn now(&self) -> Tick {
        Tick(instant().duration_since(self.0).as_micros() as u64)
    }

    /// The moment at which this clock shows `at`, for timers; at most a day ahead.
    pub(crate) fn moment(&self, at: Tick) -> tokio::time::Instant {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let ahead = Duration::from_micros(at.0.saturating_sub(self.now().0));
        tokio::time::Instant::from_std(instant() + ahead.min(DAY))
    }
}
