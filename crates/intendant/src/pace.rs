//! How often a channel looks at the time: seldom enough that what it does without an occasion, and what comes of it on other
//! nodes, leaves the cores to the workers.
//!
//! A *look* ([`intendant_engine::Input::Tick`]) acts on intents, and starts rounds of copies when they are due. What a look
//! causes is mostly done later, when others answer, and when their looks reach this node: so it is all the time that the
//! channel's thread was busy since that counts. The busier, the longer it rests; intents are then acted on earlier, as a round
//! sees more clocks ([`intendant_intent`], action timing), and a copy's updates are gathered for longer before they are told.
//! Where there is time enough, nothing is later than it would be, unless the channel was idle.
//!
//! A channel that has sent nothing and was asked for nothing for a while is idle. Then rounds of copies rest as long as those of a busy
//! one, and so do looks that only start rounds: what costs most is to wake up. A message, or anything that a worker asks
//! for, ends that at once; an update to a replica that comes without either is told by the next round.

use intendant_core::Tick;

/// A channel rests so many times as long as it was busy: a quarter of a core is the most that looks may take.
const REST: u64 = 3;

/// Because of what others cause, looks rest so long at most, in µs. Several rests must fit into what loaders look ahead, which
/// is tens of milliseconds.
const LOOK_REST_MAX: u64 = 20_000;

/// The same for rounds of copies: five per second are still enough for most models (000, Fig 4.11).
const ROUND_REST_MAX: u64 = 200_000;

/// How long nothing has happened when a channel is idle, in µs: longer than what workers that train do between accesses.
const IDLE_AFTER: u64 = 800_000;

/// What a channel's thread did, and when it looks next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Time busy since the last look, and since the last look that started a round of copies, in µs.
    since_look: u64,
    since_round: u64,
    /// No look before.
    rested: Tick,
    /// Messages sent by the end of the last round of copies.
    sent: u64,
    /// Somebody has wanted something since then.
    stirred: bool,
    /// The round before which something happened last.
    active: Tick,
    idle: bool,
}

impl Pace {
    /// The thread was busy for so long, in µs.
    pub(crate) fn worked(&mut self, took: u64) {
        self.since_look = self.since_look.saturating_add(took);
        self.since_round = self.since_round.saturating_add(took);
    }

    /// A look ended at `now`, having taken so long (not yet told as work). Tells when the next round of copies may start, if
    /// this look started one; then `round` says how many messages the channel has sent so far.
    pub(crate) fn looked(&mut self, now: Tick, took: u64, round: Option<u64>) -> Option<Tick> {
        self.worked(took);
        let rest = |busy: u64| busy.saturating_mul(REST);
        let because_of_others = rest(std::mem::take(&mut self.since_look)).min(LOOK_REST_MAX);
        self.rested = now.after(because_of_others.max(rest(took)));
        round.map(|sent| {
            let stirred = std::mem::take(&mut self.stirred);
            if std::mem::replace(&mut self.sent, sent) != sent || stirred {
                self.active = now;
            }
            self.idle = now.0.saturating_sub(self.active.0) >= IDLE_AFTER;
            let busy = std::mem::take(&mut self.since_round);
            let because_of_others = if self.idle { ROUND_REST_MAX } else { rest(busy).min(ROUND_REST_MAX) };
            now.after(because_of_others.max(rest(took)))
        })
    }

    /// Somebody wants something. Whether the channel was idle, so that the next round of copies should not rest any longer.
    pub(crate) fn stir(&mut self) -> bool {
        self.stirred = true;
        std::mem::take(&mut self.idle)
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
            assert_eq!(pace.looked(now, 50, Some(look)), Some(now.after(450)));
            assert_eq!(pace.next(now.after(1_000)), now.after(1_000));
        }
    }

    #[test]
    fn who_is_busy_rests_longer_and_not_for_ever() {
        let mut pace = Pace::default();
        let now = Tick(10_000_000);
        pace.worked(4_000);
        assert_eq!(pace.looked(now, 1_000, None), None);
        assert_eq!(pace.next(Tick(0)), now.after(15_000));
        pace.worked(1_000_000);
        assert_eq!(pace.looked(now, 0, Some(1)), Some(now.after(ROUND_REST_MAX)));
        assert_eq!(pace.next(Tick(0)), now.after(LOOK_REST_MAX));
        // What was told is told once.
        assert_eq!(pace.looked(now, 0, Some(2)), Some(now));
        // A quarter of a core in any case.
        assert_eq!(pace.looked(now, 1_000_000, Some(3)), Some(now.after(3_000_000)));
        assert_eq!(pace.next(Tick(0)), now.after(3_000_000));
    }

    #[test]
    fn who_sends_nothing_rests_until_somebody_wants_something() {
        let (mut pace, begin) = (Pace::default(), Tick(10_000_000));
        let at = |ms: u64| begin.after(1_000 * ms);
        assert_eq!(pace.looked(at(0), 0, Some(7)), Some(at(0)), "it has sent something");
        // However often there are rounds, and whether or not there are looks for intents in between.
        for ms in 1..800 {
            assert_eq!(pace.looked(at(ms), 0, None), None);
            assert_eq!(pace.looked(at(ms), 0, Some(7)), Some(at(ms)));
        }
        assert_eq!(pace.looked(at(800), 0, Some(7)), Some(at(800).after(ROUND_REST_MAX)));
        assert!(pace.stir() && !pace.stir());
        assert_eq!(pace.looked(at(900), 0, Some(7)), Some(at(900)));
        assert_eq!(pace.looked(at(1_600), 0, Some(8)), Some(at(1_600)));
        assert_eq!(pace.looked(at(2_300), 0, Some(8)), Some(at(2_300)));
        assert_eq!(pace.looked(at(2_400), 0, Some(8)), Some(at(2_400).after(ROUND_REST_MAX)));
        assert_eq!(pace.looked(at(2_600), 0, Some(9)), Some(at(2_600)), "one message is enough");
    }
}
