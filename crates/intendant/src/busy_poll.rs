//! Decides when an idle channel polls its rings for a while before it sleeps.
//!
//! Waking a thread costs the waker a system call. It costs an idle processor tens of microseconds, and a
//! virtual processor more. A channel that finds the answer by polling saves both sides this cost. But polling
//! takes the core from the workers and, if nothing arrives, wastes power. So a channel polls only while no
//! worker of its node is awake (`awake.rs`) and there are enough cores. It polls for a short time only, and
//! rarely if polling was in vain before.

use intendant_core::Tick;

/// How long a channel polls after its last activity, in µs. This is about the cost to both sides of waking a
/// thread on an idle processor, so an attempt that finds nothing loses no more than it could have gained.
const POLL_MAX: u64 = 50;

/// An attempt that finds nothing adds this to [`BusyPoll::doubt`], and one that finds something subtracts 1.
/// So a channel goes on polling if two of three attempts find something. An attempt in vain costs more than a
/// successful one gains.
const IN_VAIN: u32 = 2;

/// The same for an attempt in which another program took the core for at least `LOST_MIN` µs. A thread that
/// sleeps gets the core back sooner than one that has used it for nothing.
const LOST: u32 = 4;
const LOST_MIN: u64 = 25;

/// The greatest doubt. One of 256 sleeps is then preceded by an attempt, which takes 50 µs. For a channel
/// that sleeps a thousand times per second and polls in vain, the attempts take 0.2 ms of a core per second.
const DOUBT_MAX: u32 = 8;

/// Iterations between two readings of the clock. A reading costs as much as several iterations.
const ITERATIONS_PER_LOOK: u32 = 8;

/// A channel's estimate whether polling pays.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    /// Number of sleeps until the next attempt.
    skip: u32,
    /// The binary logarithm of the number of sleeps per attempt.
    doubt: u32,
}

impl BusyPoll {
    /// The state of a channel of a node with `channels` channels, which may run on `cores` cores. `peers` is
    /// the number of other processes that may run on these cores as well and are connected over rings; it is
    /// `None` if there are no rings. Returns `None` unless all threads that may poll on the cores can do so
    /// at the same time.
    pub(crate) fn new(peers: Option<usize>, channels: usize, cores: usize) -> Option<Self> {
        let threads = (1 + peers?) * channels;
        (threads <= cores).then_some(Self { skip: 0, doubt: 0 })
    }

    /// Is called before a sleep. Polls, or does nothing if polling was in vain too often. Returns whether
    /// there is something to do now. `now` is the time; `frames` says whether there is something to do in a
    /// ring, `other` whether there is something else to do, and `free` whether no other thread needs the
    /// core.
    pub(crate) fn poll(
        &mut self,
        now: impl Fn() -> Tick,
        mut frames: impl FnMut() -> bool,
        other: impl Fn(Tick) -> bool,
        free: impl Fn() -> bool,
    ) -> bool {
        if !free() {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        let begun = now();
        let mut time = begun;
        loop {
            if other(time) {
                return true;
            }
            let mut found = false;
            for _ in 0..ITERATIONS_PER_LOOK {
                if !free() {
                    return false;
                }
                found = frames();
                if found {
                    break;
                }
                std::hint::spin_loop();
            }
            let before = std::mem::replace(&mut time, now());
            let over = time.0.saturating_sub(begun.0) >= POLL_MAX;
            if time.0.saturating_sub(before.0) >= LOST_MIN {
                self.learn(DOUBT_MAX.min(self.doubt + LOST));
            } else if found {
                self.learn(self.doubt.saturating_sub(1));
            } else if over {
                self.learn(DOUBT_MAX.min(self.doubt + IN_VAIN));
            }
            if found || over {
                return found;
            }
        }
    }

    fn learn(&mut self, doubt: u32) {
        self.doubt = doubt;
        self.skip = (1 << doubt) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A clock that advances by 1 µs at each reading.
    fn clock() -> impl Fn() -> Tick {
        let time = Cell::new(0);
        move || Tick(time.replace(time.get() + 1))
    }

    fn polling() -> BusyPoll {
        BusyPoll::new(Some(0), 1, 1).expect("there are cores enough")
    }

    /// One attempt, or a sleep without one. Returns whether it found something, and how often it looked into
    /// the ring.
    fn attempt(polling: &mut BusyPoll, frames: bool) -> (bool, u32) {
        let mut looks = 0;
        let found = polling.poll(
            clock(),
            || {
                looks += 1;
                frames && looks == 3
            },
            |_| false,
            || true,
        );
        (found, looks)
    }

    #[test]
    fn only_threads_that_all_have_a_core_poll() {
        for (peers, channels, cores, polls) in [
            (None, 1, 64, false),
            (Some(0), 1, 1, true),
            (Some(0), 2, 1, false),
            (Some(0), 2, 2, true),
            (Some(1), 1, 1, false),
            (Some(1), 1, 2, true),
            (Some(3), 2, 7, false),
            (Some(3), 2, 8, true),
        ] {
            assert_eq!(
                BusyPoll::new(peers, channels, cores).is_some(),
                polls,
                "{peers:?} {channels} {cores}"
            );
        }
    }

    #[test]
    fn a_poll_ends_with_what_it_finds_or_with_its_time() {
        let mut polling = polling();
        assert_eq!(attempt(&mut polling, true), (true, 3));
        let (found, looks) = attempt(&mut polling, false);
        assert_eq!((found, looks), (false, ITERATIONS_PER_LOOK * POLL_MAX as u32));
    }

    #[test]
    fn a_worker_that_wakes_gets_the_core_at_once() {
        let mut polling = polling();
        assert!(!polling.poll(clock(), || panic!("no look"), |_| true, || false), "a worker is awake");
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            false
        };
        assert!(!polling.poll(clock(), look, |_| false, || looks.get() < 5));
        assert_eq!(looks.get(), 5);
        assert_eq!(attempt(&mut polling, true), (true, 3), "that was not in vain");
    }

    #[test]
    fn a_command_or_an_alarm_ends_a_poll() {
        let mut polling = polling();
        assert!(polling.poll(clock(), || false, |_| true, || true));
        let mut looks = 0;
        let look = || {
            looks += 1;
            false
        };
        assert!(polling.poll(clock(), look, |now| now >= Tick(7), || true));
        assert!(looks < ITERATIONS_PER_LOOK * 8, "{looks}");
        assert_eq!(attempt(&mut polling, true), (true, 3), "that was not in vain");
    }

    #[test]
    fn a_channel_that_loses_its_core_polls_less() {
        for found in [false, true] {
            let mut polling = polling();
            // The second reading of the clock is late.
            let readings = Cell::new(0);
            let now = || Tick(if readings.replace(readings.get() + 1) == 0 { 0 } else { LOST_MIN });
            let looks = Cell::new(0);
            let look = || {
                looks.set(looks.get() + 1);
                found || looks.get() > ITERATIONS_PER_LOOK
            };
            assert!(polling.poll(now, look, |_| false, || true), "what has come is not left");
            let skipped = (0..100).take_while(|_| attempt(&mut polling, true).1 == 0).count();
            assert_eq!(skipped, if found { (1 << LOST) - 1 } else { (1 << (LOST - 1)) - 1 });
        }
    }

    #[test]
    fn polls_in_vain_become_rare_and_come_back_when_they_bring_something() {
        let mut polling = polling();
        let attempts = |polling: &mut BusyPoll, frames: bool, sleeps: u32| {
            (0..sleeps).filter(|_| attempt(polling, frames).1 > 0).count()
        };
        attempts(&mut polling, false, 10_000);
        assert_eq!(attempts(&mut polling, false, 2_560), 10);
        attempts(&mut polling, true, 512);
        assert_eq!(attempts(&mut polling, true, 100), 100);
        // Success in three of four attempts is enough to go on polling; success in one of two is not.
        for (brings, of, least, most) in [(3, 4, 0, 2 * IN_VAIN), (1, 2, DOUBT_MAX - IN_VAIN, DOUBT_MAX)] {
            let mut tried = 0;
            for _ in 0..100_000 {
                tried += u32::from(attempt(&mut polling, tried % of < brings).1 > 0);
            }
            assert!((least..=most).contains(&polling.doubt), "{brings} of {of}: {}", polling.doubt);
        }
    }
}
