//! The one place that reads the clock for what is decided or counted without I/O.

use intendant_core::Tick;
use std::time::Instant;

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
}
