//! The clock: how long steps take is reported, and decides nothing.

use std::time::{Duration, Instant};

/// Runs `act` and tells how long it took.
pub(crate) fn timed<R>(act: impl FnOnce() -> R) -> (R, Duration) {
    let start = now();
    let result = act();
    (result, start.elapsed())
}

#[expect(clippy::disallowed_methods, reason = "automation reports how long its steps take")]
fn now() -> Instant {
    Instant::now()
}
