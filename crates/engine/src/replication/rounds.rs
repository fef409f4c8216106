//! When rounds of deltas and updates of directed replicas start, and how they are spread over time.
//!
//! A round consists of portions. They are spread evenly over the time to the next round: if channels sent
//! them in a burst, the accesses and relocations of all nodes would wait behind the deltas of all nodes. A
//! channel that is late does what is overdue in one input.

use intendant_core::Tick;

/// When the last look was, when the next round may start, and the round that has started.
#[derive(Default)]
pub(crate) struct Rounds {
    /// The last look, whether or not it did anything for a round.
    pub(super) looked: Tick,
    /// The next round.
    next: Tick,
    /// When the next round would start without postponement.
    paced: Tick,
    /// The round that has started and has portions left.
    current: Option<Current>,
    /// Whether the round that has started, or else the last one, has sent something.
    sent: bool,
}

/// A round that has portions left.
#[derive(Clone, Copy, Debug)]
struct Current {
    begun: Tick,
    /// How long after `begun` the channel should have processed all keys.
    within: Tick,
    /// Number of keys that the round processes.
    keys: usize,
    /// When the next portion is due.
    due: Tick,
}

impl Rounds {
    /// When the next round may start.
    pub(crate) fn next(&self) -> Tick {
        self.next
    }

    /// When the next portion of a round is due.
    pub(crate) fn due(&self) -> Tick {
        self.current.as_ref().map_or(self.next, |round| round.due)
    }

    /// No round starts before `earliest`.
    pub(crate) fn postpone(&mut self, earliest: Tick) {
        self.next = self.next.max(earliest);
    }

    /// Undoes postponements.
    pub(crate) fn hasten(&mut self) {
        self.next = self.next.min(self.paced);
    }

    /// Whether a round has portions left.
    pub(super) fn has_started(&self) -> bool {
        self.current.is_some()
    }

    /// A round over `keys` keys starts at `now`. The next one starts `every` later at the earliest.
    pub(super) fn start(&mut self, now: Tick, every: Tick, keys: usize) {
        self.paced = now.after(every.0);
        self.next = self.paced;
        self.sent = false;
        self.current = Some(Current { begun: now, within: every, keys, due: now });
    }

    /// Starts a round that is not paced and consists of one portion. It replaces a round that has started.
    pub(super) fn start_unpaced(&mut self) {
        (self.current, self.sent) = (None, false);
    }

    /// Number of keys that should have been processed by `now` and have not been, if `left` keys of the round
    /// have not been processed.
    pub(super) fn overdue(&self, now: Tick, left: usize) -> usize {
        let Some(round) = &self.current else { return 0 };
        let (spent, within) = (now.0.saturating_sub(round.begun.0), round.within.0.max(1));
        let should = (round.keys as u128 * u128::from(spent.min(within))).div_ceil(u128::from(within));
        (should as usize).saturating_sub(round.keys.saturating_sub(left))
    }

    /// Notes that a portion is done, and that `left` keys remain. `sent` says whether the portion has sent
    /// something. Returns whether it is the first portion of its round that has.
    pub(super) fn progress(&mut self, left: usize, sent: bool) -> bool {
        self.current = self.current.take().filter(|_| left > 0);
        if let Some(round) = &mut self.current {
            let done = round.keys.saturating_sub(left) as u128;
            let spent = u128::from(round.within.0) * done / round.keys.max(1) as u128;
            round.due = round.begun.after(spent as u64);
        }
        sent && !std::mem::replace(&mut self.sent, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_spread_until_the_next() {
        let (mut rounds, begun) = (Rounds::default(), Tick(1_000));
        assert_eq!((rounds.due(), rounds.has_started()), (Tick(0), false));
        rounds.start(begun, Tick(400), 100);
        assert_eq!((rounds.due(), rounds.overdue(begun, 100)), (begun, 0));
        assert!(rounds.progress(75, true), "the first portion that sends counts the round");
        assert_eq!(rounds.due(), begun.after(100));
        assert_eq!(rounds.overdue(begun.after(100), 75), 0, "it is on time");
        assert!(!rounds.progress(75, true), "the round has been counted");
        assert_eq!(rounds.overdue(begun.after(300), 75), 50, "it is late");
        assert_eq!(rounds.overdue(begun.after(900), 75), 75, "no more than all");
        rounds.postpone(begun.after(700));
        assert_eq!(rounds.due(), begun.after(100), "a round that has started is not postponed");
        assert!(!rounds.progress(0, false));
        assert_eq!((rounds.due(), rounds.has_started()), (begun.after(700), false));
        rounds.hasten();
        assert_eq!(rounds.due(), begun.after(400));
    }

    #[test]
    fn a_round_that_sends_nothing_is_not_counted() {
        let mut rounds = Rounds::default();
        rounds.start(Tick(0), Tick(40), 0);
        assert!(!rounds.progress(0, false) && !rounds.has_started());
        rounds.start(Tick(40), Tick(40), 10);
        assert!(!rounds.progress(5, false), "all of them wait");
        assert!(rounds.progress(0, true));
    }
}
