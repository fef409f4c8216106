//! How often a channel looks at the time: seldom enough that what it does without an occasion, and what comes of it on other
//! nodes, leaves the cores to the workers.
//!
//! A *look* ([`intendant_engine::Input::Tick`]) acts on intents, and starts rounds of copies when they are due. What a look
//! causes is mostly done later, when others answer, and when their looks reach this node: so it is all the time that the
//! channel's thread was busy since that counts. The busier, the longer it rests; intents are then acted on earlier, as a round
//! sees more clocks ([`intendant_intent`], action timing), and a copy's updates are gathered for longer before they are told.
//! Where there is time enough, nothing is later than it would be.

use intendant_core::Tick;

/// A channel rests so many times as long as it was busy: a quarter of a core is the most that looks may take.
const REST: u64 = 3;

/// Because of what others cause, looks rest so long at most, in µs. Several rests must fit into what loaders look ahead, which
/// is tens of milliseconds.
const LOOK_REST_MAX: u64 = 20_000;

/// The same for rounds of copies: five per second are still enough for most models (000, Fig 4.11).
const ROUND_REST_MAX: u64 = 200_000;

/// What a channel's thread did, and when it looks next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Time busy since the last look, and since the last look that started a round of copies, in µs.
    since_look: u64,
    since_round: u64,
    /// No look before.
    rested: Tick,
}

impl Pace {
    /// The thread was busy for so long, in µs.
    pub(crate) fn worked(&mut self, took: u64) {
        self.since_look = self.since_look.saturating_add(took);
        self.since_round = self.since_round.saturating_add(took);
    }

    /// A look ended at `now`, having taken so long (not yet told as work). Tells when the next round of copies may start, if
    /// this look started one.
    pub(crate) fn looked(&mut self, now: Tick, took: u64, starts_round: bool) -> Option<Tick> {
        self.worked(took);
        let rest = |busy: u64| busy.saturating_mul(REST);
        let because_of_others = rest(std::mem::take(&mut self.since_look)).min(LOOK_REST_MAX);
        self.rested = now.after(because_of_others.max(rest(took)));
        starts_round.then(|| {
            let because_of_others = rest(std::mem::take(&mut self.since_round)).min(ROUND_REST_MAX);
            now.after(because_of_others.max(rest(took)))
        })
    }

    /// When to look, if something is due then.
    pub(crate) fn next(&self, due: Tick) -> Tick {
        due.max(self.rested)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_time_is_not_late() {
        let mut pace = Pace::default();
        for look in 1..100 {
            let now = Tick(look * 1_000);
            pace.worked(100);
            assert_eq!(pace.looked(now, 50, true), Some(now.after(450)));
            assert_eq!(pace.next(now.after(1_000)), now.after(1_000));
        }
    }

    #[test]
    fn who_is_busy_rests_longer_and_not_for_ever() {
        let mut pace = Pace::default();
        let now = Tick(10_000_000);
        pace.worked(4_000);
        assert_eq!(pace.looked(now, 1_000, false), None);
        assert_eq!(pace.next(Tick(0)), now.after(15_000));
        pace.worked(1_000_000);
        assert_eq!(pace.looked(now, 0, true), Some(now.after(ROUND_REST_MAX)));
        assert_eq!(pace.next(Tick(0)), now.after(LOOK_REST_MAX));
        // What was told is told once.
        assert_eq!(pace.looked(now, 0, true), Some(now));
        // A quarter of a core in any case.
        assert_eq!(pace.looked(now, 1_000_000, true), Some(now.after(3_000_000)));
        assert_eq!(pace.next(Tick(0)), now.after(3_000_000));
    }
}
