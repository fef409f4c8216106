//! The only use of the clock: measuring durations for reports. No result depends on them.

use std::time::{Duration, Instant};

/// Runs `act` and measures its duration.
pub(crate) fn timed<R>(act: impl FnOnce() -> R) -> (R, Duration) {
    let start = now();
    let result = act();
    (result, start.elapsed())
}

#[expect(clippy::disallowed_methods, reason = "automation reports how long its steps take")]
fn now() -> Instant {
    Instant::now()
}
