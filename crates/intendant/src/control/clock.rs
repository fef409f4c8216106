//! The one place of the control plane that reads the clock.

use intendant_core::Tick;
use std::time::Instant;

/// A monotonic clock that starts at 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct ControlClock(Instant);

#[expect(clippy::disallowed_methods, reason = "heartbeats need real, monotonic time")]
fn instant() -> Instant {
    Instant::now()
}

impl ControlClock {
    pub(super) fn start() -> Self {
        Self(instant())
    }

    pub(super) fn now(&self) -> Tick {
        Tick(instant().duration_since(self.0).as_micros() as u64)
    }
}
