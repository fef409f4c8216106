//! How long a channel looks for input before it sleeps.
//!
//! Frames in shared memory are seen without a system call by a channel that looks. One that sleeps must be
//! woken, which costs both sides more than the frame does. So a channel with rings goes on looking for a short
//! while, as long as that is worth it: every while in vain lets it sleep at once twice as often before it tries
//! again.
//!
//! Between looks the channel gives its core away. If another thread then computes there for long, frames wait
//! for longer than a wake-up takes, because a thread that is woken soon gets the core. After that, the channel
//! hardly tries again.

use intendant_core::Tick;

/// The longest while. About what it costs to wake a thread of another core and to be answered by it.
const WHILE_US: u64 = 50;

/// A channel that has not looked for so long has lost its core.
const AWAY_US: u64 = 100;

/// After many whiles in vain, one of so many times to sleep begins with a while.
const SKIPPED_MAX: u32 = 1023;

/// Whether a channel that has nothing to do should look again at once.
#[derive(Debug, Default)]
pub(crate) struct Linger {
    now: Option<While>,
    /// How often the channel sleeps at once after the last while, which was in vain.
    skipped: u32,
    /// How often it still does.
    left: u32,
}

#[derive(Clone, Copy, Debug)]
struct While {
    since: Tick,
    looked: Tick,
}

impl While {
    fn was_away(self, now: Tick) -> bool {
        now.0.saturating_sub(self.looked.0) >= AWAY_US
    }
}

impl Linger {
    /// Whether the channel is in a while.
    pub(crate) fn is_on(&self) -> bool {
        self.now.is_some()
    }

    /// There was something to do.
    pub(crate) fn found(&mut self, now: Tick) {
        if let Some(this) = self.now.take() {
            self.end(if this.was_away(now) { SKIPPED_MAX } else { 0 });
        }
    }

    /// There is nothing to do. Whether to look again, rather than sleep.
    pub(crate) fn goes_on(&mut self, now: Tick) -> bool {
        match &mut self.now {
            Some(this) if this.was_away(now) => self.end(SKIPPED_MAX),
            Some(this) if now.0.saturating_sub(this.since.0) < WHILE_US => this.looked = now,
            Some(_) => self.end((2 * self.skipped + 1).min(SKIPPED_MAX)),
            None if self.left > 0 => self.left -= 1,
            None => self.now = Some(While { since: now, looked: now }),
        }
        self.is_on()
    }

    fn end(&mut self, skipped: u32) {
        self.now = None;
        (self.skipped, self.left) = (skipped, skipped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks until it sleeps; the time that passed.
    fn linger(linger: &mut Linger, now: &mut u64) -> u64 {
        let begun = *now;
        while linger.goes_on(Tick(*now)) {
            *now += 1;
        }
        *now - begun
    }

    #[test]
    fn whiles_are_bounded_and_rarer_when_they_are_in_vain() {
        let (mut lingers, mut now) = (Linger::default(), 1_000);
        let mut whiles = Vec::new();
        for time in 0..5_000 {
            let looked = linger(&mut lingers, &mut now);
            assert!(looked == 0 || looked == WHILE_US, "{looked}");
            if looked > 0 {
                whiles.push(time);
            }
        }
        assert_eq!(whiles[..5], [0, 2, 6, 14, 30]);
        let last = &whiles[whiles.len() - 2..];
        assert_eq!(last[1] - last[0], 1 + SKIPPED_MAX as usize);
    }

    #[test]
    fn a_while_that_finds_something_is_followed_by_others() {
        let (mut lingers, mut now) = (Linger::default(), 0);
        for _ in 0..4 {
            linger(&mut lingers, &mut now);
        }
        while !lingers.goes_on(Tick(now)) {}
        lingers.found(Tick(now));
        for _ in 0..10 {
            assert!(lingers.goes_on(Tick(now)), "it paid");
            lingers.found(Tick(now));
        }
    }

    #[test]
    fn work_that_came_after_a_sleep_does_not_make_lingering_worth_it() {
        let (mut lingers, mut now) = (Linger::default(), 0);
        let whiles = (0..63).filter(|_| {
            let looked = linger(&mut lingers, &mut now) > 0;
            // Something wakes the channel.
            lingers.found(Tick(now));
            looked
        });
        assert_eq!(whiles.count(), 6);
    }

    #[test]
    fn a_channel_that_lost_its_core_hardly_tries_again() {
        for finds in [false, true] {
            let (mut lingers, now) = (Linger::default(), 7);
            assert!(lingers.goes_on(Tick(now)) && lingers.goes_on(Tick(now + 1)));
            let back = Tick(now + 1 + AWAY_US);
            if finds {
                lingers.found(back);
            } else {
                assert!(!lingers.goes_on(back));
            }
            let slept = (0..).take_while(|_| !lingers.goes_on(back)).count();
            assert_eq!(slept, SKIPPED_MAX as usize);
        }
    }
}
