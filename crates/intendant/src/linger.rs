//! How long a channel looks for input before it sleeps.
//!
//! Frames in shared memory are seen without a system call by a channel that looks. One that sleeps must be
//! woken, which costs both sides more than the frame does. So a channel with rings goes on looking for a
//! short while, as long as that is worth it: every while in vain lets it sleep at once twice as often before
//! it tries again.

use intendant_core::Tick;

/// The longest while. About what it costs to wake a thread of another core and to be answered by it.
const WHILE_US: u64 = 50;

/// After many whiles in vain, one of so many times to sleep begins with a while.
const SKIPPED_MAX: u32 = 63;

/// Whether a channel that has nothing to do should look again at once.
#[derive(Debug, Default)]
pub(crate) struct Linger {
    /// Begin of the current while.
    since: Option<Tick>,
    /// How often the channel sleeps at once after the last while, which was in vain.
    skipped: u32,
    /// How often it still does.
    left: u32,
}

impl Linger {
    /// There was something to do.
    pub(crate) fn found(&mut self) {
        if self.since.take().is_some() {
            (self.skipped, self.left) = (0, 0);
        }
    }

    /// There is nothing to do. Whether to look again, rather than sleep.
    pub(crate) fn goes_on(&mut self, now: Tick) -> bool {
        match self.since {
            Some(since) if now.0.saturating_sub(since.0) < WHILE_US => true,
            Some(_) => {
                self.since = None;
                self.skipped = (2 * self.skipped + 1).min(SKIPPED_MAX);
                self.left = self.skipped;
                false
            }
            None if self.left > 0 => {
                self.left -= 1;
                false
            }
            None => {
                self.since = Some(now);
                true
            }
        }
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
        for time in 0..1_000 {
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
        lingers.found();
        for _ in 0..10 {
            assert!(lingers.goes_on(Tick(now)), "it paid");
            lingers.found();
        }
    }

    #[test]
    fn work_that_came_after_a_sleep_does_not_make_lingering_worth_it() {
        let (mut lingers, mut now) = (Linger::default(), 0);
        let whiles = (0..63).filter(|_| {
            let looked = linger(&mut lingers, &mut now) > 0;
            // Something wakes the channel.
            lingers.found();
            looked
        });
        assert_eq!(whiles.count(), 6);
    }
}
