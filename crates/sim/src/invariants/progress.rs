//! A run ends within a bounded number of events, and not before everybody is done.

use super::Finding;

/// Where nothing happens for long, there are many looks at the time; but not that many.
const TICKS_PER_EVENT_MAX: u64 = 20;

/// The bound.
pub(crate) struct Progress {
    events_max: u64,
}

impl Progress {
    pub(crate) fn new(events_max: u64) -> Self {
        Self { events_max }
    }

    /// After `events` events, and so many looks at the time.
    pub(crate) fn step(&self, events: u64, ticks: u64) -> Result<(), Finding> {
        if events <= self.events_max && ticks / TICKS_PER_EVENT_MAX <= self.events_max {
            return Ok(());
        }
        Err((
            "progress",
            format!("still running after {} events: something goes in circles", self.events_max),
        ))
    }

    /// Nothing is left to happen, but `who` waits.
    pub(crate) fn stuck(who: &str) -> Finding {
        ("progress", format!("nothing is left to happen, but {who}"))
    }
}
