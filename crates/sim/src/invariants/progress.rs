//! Progress: a run ends within a bounded number of events, and all workers are done then.

use super::finding::Finding;

/// Upper bound of ticks per allowed event. A long idle phase has many ticks, but fewer than that.
const TICKS_PER_EVENT_MAX: u64 = 20;

/// The bound.
pub(crate) struct Progress {
    events_max: u64,
}

impl Progress {
    pub(crate) fn new(events_max: u64) -> Self {
        Self { events_max }
    }

    /// Checks the bound after `events` events and `ticks` ticks.
    pub(crate) fn step(&self, events: u64, ticks: u64) -> Result<(), Finding> {
        if events <= self.events_max && ticks / TICKS_PER_EVENT_MAX <= self.events_max {
            return Ok(());
        }
        Err(("progress", format!("still running after {} events", self.events_max)))
    }

    /// The finding that no event is left although `who` waits.
    pub(crate) fn stuck(who: &str) -> Finding {
        ("progress", format!("no event is left, but {who}"))
    }
}
