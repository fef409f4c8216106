//! Limits how often one kind of event is written to the log.
//!
//! Every connection to a listening port can cause a line. An attack or a loop in a script causes thousands
//! per second, which hides what matters and fills the disk.

use intendant_core::Tick;

/// Lines that pass at once.
const BURST: u64 = 5;

/// Time after which one more line may pass, in µs.
const REFILL_US: u64 = 10_000_000;

/// Decides for each event of one kind whether it is worth a line in the log.
///
/// The first five events pass, then one per 10 s. The caller passes the time, in microseconds since any fixed
/// moment.
#[derive(Clone, Copy, Debug)]
pub struct Throttle {
    lines: u64,
    refilled: Tick,
    suppressed: u64,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { lines: BURST, refilled: Tick(0), suppressed: 0 }
    }
}

impl Throttle {
    /// Records an event at `now`. If it may be logged, returns how many events before it were not.
    pub fn pass(&mut self, now: Tick) -> Option<Suppressed> {
        let periods = now.0.saturating_sub(self.refilled.0) / REFILL_US;
        self.lines = (self.lines + periods).min(BURST);
        self.refilled = Tick(self.refilled.0 + periods * REFILL_US);
        if self.lines == 0 {
            self.suppressed += 1;
            return None;
        }
        self.lines -= 1;
        Some(Suppressed(std::mem::take(&mut self.suppressed)))
    }
}

/// Number of events that were not logged. It prints nothing if there are none, and otherwise a remark in
/// parentheses with a leading space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suppressed(pub u64);

impl std::fmt::Display for Suppressed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => Ok(()),
            count => write!(f, " ({count} similar events since the last such line were not logged)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_one_event_per_period() {
        let mut throttle = Throttle::default();
        let begin = Tick(3 * REFILL_US + 1);
        let passed = (0..1000).filter(|_| throttle.pass(begin).is_some()).count();
        assert_eq!(passed as u64, BURST);
        assert_eq!(throttle.pass(Tick(4 * REFILL_US - 1)), None, "the period is not over");
        assert_eq!(throttle.pass(Tick(4 * REFILL_US)), Some(Suppressed(1000 - BURST + 1)));
        assert_eq!(throttle.pass(Tick(4 * REFILL_US + 1)), None);
        assert_eq!(throttle.pass(Tick(5 * REFILL_US)), Some(Suppressed(1)));
    }

    #[test]
    fn a_quiet_time_restores_no_more_than_a_burst() {
        let mut throttle = Throttle::default();
        let late = Tick(1000 * REFILL_US);
        assert_eq!((0..100).filter(|_| throttle.pass(late).is_some()).count() as u64, BURST);
    }

    #[test]
    fn the_remark_says_how_many_events_were_left_out() {
        assert_eq!(Suppressed(0).to_string(), "");
        assert!(Suppressed(7).to_string().starts_with(" (7 similar events"));
    }
}
