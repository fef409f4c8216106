//! The clock of the threads: seconds in reports, cuts and the time of a grace are measured by it.

use std::time::Instant;

#[expect(clippy::disallowed_methods, reason = "the threaded shell measures how long epochs take")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
