//! The time of a channel's next *look*, an [`Input::Tick`](crate::Input::Tick). Looks act on intents, send
//! the deltas of urgent replicas, and do portions of rounds of replicas that are due. They must be rare
//! enough that their work, on this node and on others, leaves the cores to the workers, and that the accesses
//! of other nodes do not wait behind it.
//!
//! Most of the work that a look causes follows later, when other nodes answer, and when messages of their
//! looks reach this node. So the timer counts all the time that the channel's thread was busy since the last
//! look: the busier the thread, the longer it rests. Intents are then acted on earlier, because action timing
//! ([`intendant_intent`]) sees more clocks per round, and the updates of a replica are gathered for longer
//! before they are sent. If the thread has little to do, nothing is delayed, unless the channel was idle.
//!
//! A channel that has sent nothing and got no request for a while is idle. Rounds of replicas then rest as
//! long as those of a busy channel, and so do looks that only start rounds, because waking up is most of
//! their cost. A message or a request of a worker ends that at once. An update that a worker makes to a
//! replica on the fast path does not; the next look or round sends it.

use intendant_core::Tick;

/// A channel that shares its core with workers rests this many times as long as it was busy, so that looks
/// take a quarter of a core at most.
const REST_SHARED: u64 = 3;

/// The same for a channel with a core of its own: looks take half of it at most, and accesses of other nodes
/// the rest.
const REST_OWN: u64 = 1;

/// The longest rest between looks because of busy time that other nodes cause, in µs. Several rests must fit
/// into the time by which loaders are ahead of workers, which is tens of milliseconds.
const LOOK_REST_MAX: u64 = 20_000;

/// A channel that has not looked for longer than this, in µs, had no reason to: nothing postponed its looks.
const SLEEP_MIN: u64 = 5 * LOOK_REST_MAX;

/// The same for rounds of copies: five per second are still enough for most models [thesis Fig. 4.11].
const ROUND_REST_MAX: u64 = 200_000;

/// A channel is idle if nothing has happened for this long, in µs. This is longer than training workers
/// compute between accesses.
const IDLE_AFTER: u64 = 800_000;

/// Busy time of a channel's thread, and the time of its next look.
#[derive(Clone, Copy, Debug)]
pub struct LookTimer {
    /// The thread rests this many times as long as it was busy.
    rest: u64,
    /// Time busy since the last look, and since the last look that started a round of copies, in µs.
    since_look: u64,
    since_round: u64,
    /// The last look.
    looked: Tick,
    /// Earliest time of the next look.
    rested: Tick,
    /// Messages sent by the end of the last round of copies.
    sent: u64,
    /// A message or request has arrived since then.
    stirred: bool,
    /// The time of the last round before which something had happened.
    active: Tick,
    idle: bool,
}

impl LookTimer {
    /// `shares_core`: a worker may need the channel's core, because the node's workers and channels are more
    /// than its cores.
    #[must_use]
    pub fn new(shares_core: bool) -> Self {
        Self {
            rest: if shares_core { REST_SHARED } else { REST_OWN },
            since_look: 0,
            since_round: 0,
            looked: Tick(0),
            rested: Tick(0),
            sent: 0,
            stirred: false,
            active: Tick(0),
            idle: false,
        }
    }

    /// Notes that the thread was busy for `took` µs.
    pub fn worked(&mut self, took: u64) {
        self.since_look = self.since_look.saturating_add(took);
        self.since_round = self.since_round.saturating_add(took);
    }

    /// A look that took `took` µs (not yet counted by [`LookTimer::worked`]) has ended at `now`. If it
    /// started a round of copies, `round` is the number of messages that the channel has sent so far; returns
    /// the earliest time of the next round.
    pub fn looked(&mut self, now: Tick, took: u64, round: Option<u64>) -> Option<Tick> {
        self.worked(took);
        let factor = self.rest;
        let rest = |busy: u64| busy.saturating_mul(factor);
        // Looks that were postponed because of work follow each other faster than this. So the channel has
        // slept, and does not need to rest.
        let slept = now.0.saturating_sub(std::mem::replace(&mut self.looked, now).0) > SLEEP_MIN;
        let since_look = std::mem::take(&mut self.since_look);
        let because_of_others = if slept { 0 } else { rest(since_look).min(LOOK_REST_MAX) };
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

    /// Records activity. Returns whether the channel was idle, so that the next round of replicas should not
    /// rest any longer.
    pub fn stir(&mut self) -> bool {
        self.stirred = true;
        std::mem::take(&mut self.idle)
    }

    /// The time of the next look, if the engine's tick is due at `due`.
    #[must_use]
    pub fn next(&self, due: Tick) -> Tick {
        due.max(self.rested)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unloaded_channel_is_not_late() {
        let mut timer = LookTimer::new(true);
        for look in 1..100 {
            let now = Tick(look * 1_000);
            timer.worked(100);
            assert_eq!(timer.looked(now, 50, Some(look)), Some(now.after(450)));
            assert_eq!(timer.next(now.after(1_000)), now.after(1_000));
        }
    }

    #[test]
    fn a_busy_channel_rests_longer_up_to_a_bound() {
        let mut timer = LookTimer::new(true);
        let now = Tick(10_000_000);
        assert_eq!(timer.looked(Tick(9_990_000), 0, None), None);
        timer.worked(4_000);
        assert_eq!(timer.looked(now, 1_000, None), None);
        assert_eq!(timer.next(Tick(0)), now.after(15_000));
        timer.worked(1_000_000);
        assert_eq!(timer.looked(now, 0, Some(1)), Some(now.after(ROUND_REST_MAX)));
        assert_eq!(timer.next(Tick(0)), now.after(LOOK_REST_MAX));
        // Busy time is charged once.
        assert_eq!(timer.looked(now, 0, Some(2)), Some(now));
        // The rest after a look's own work has no bound, so that looks take a quarter of a core at most.
        assert_eq!(timer.looked(now, 1_000_000, Some(3)), Some(now.after(3_000_000)));
        assert_eq!(timer.next(Tick(0)), now.after(3_000_000));
    }

    #[test]
    fn an_idle_channel_rests_until_the_next_request() {
        let (mut timer, begin) = (LookTimer::new(true), Tick(10_000_000));
        let at = |ms: u64| begin.after(1_000 * ms);
        assert_eq!(timer.looked(at(0), 0, Some(7)), Some(at(0)), "it has sent something");
        // However often there are rounds, and whether or not there are looks for intents in between.
        for ms in 1..800 {
            assert_eq!(timer.looked(at(ms), 0, None), None);
            assert_eq!(timer.looked(at(ms), 0, Some(7)), Some(at(ms)));
        }
        assert_eq!(timer.looked(at(800), 0, Some(7)), Some(at(800).after(ROUND_REST_MAX)));
        assert!(timer.stir() && !timer.stir());
        assert_eq!(timer.looked(at(900), 0, Some(7)), Some(at(900)));
        assert_eq!(timer.looked(at(1_600), 0, Some(8)), Some(at(1_600)));
        assert_eq!(timer.looked(at(2_300), 0, Some(8)), Some(at(2_300)));
        assert_eq!(timer.looked(at(2_400), 0, Some(8)), Some(at(2_400).after(ROUND_REST_MAX)));
        assert_eq!(timer.looked(at(2_600), 0, Some(9)), Some(at(2_600)), "one message is enough");
    }

    #[test]
    fn a_channel_with_a_core_of_its_own_rests_less() {
        let now = Tick(50_000);
        for (shares_core, rest) in [(true, 3_000), (false, 1_000)] {
            let mut timer = LookTimer::new(shares_core);
            assert_eq!(timer.looked(now, 1_000, Some(0)), Some(now.after(rest)));
            assert_eq!(timer.next(Tick(0)), now.after(rest));
        }
    }

    #[test]
    fn a_channel_that_slept_has_rested() {
        let mut timer = LookTimer::new(true);
        let begin = Tick(10_000_000);
        timer.looked(begin, 0, None);
        timer.worked(4_000);
        let slept = begin.after(SLEEP_MIN + 1);
        timer.looked(slept, 0, None);
        assert_eq!(timer.next(Tick(0)), slept, "the work was long ago");
        timer.worked(4_000);
        let late = slept.after(SLEEP_MIN);
        timer.looked(late, 0, None);
        assert_eq!(timer.next(Tick(0)), late.after(12_000));
    }
}
