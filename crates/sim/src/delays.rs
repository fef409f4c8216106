//! How long things take.

use crate::dice::Dice;

/// A random duration in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// At least.
    pub min_ns: u64,
    /// At most, outside of the tail.
    pub max_ns: u64,
    /// One duration in so many is stretched sixteenfold; 0 means none.
    pub tail_once_in: u64,
}

impl Spread {
    /// Always `ns`.
    #[must_use]
    pub const fn fixed(ns: u64) -> Self {
        Self { min_ns: ns, max_ns: ns, tail_once_in: 0 }
    }

    /// Evenly between `min_ns` and `max_ns`.
    #[must_use]
    pub const fn even(min_ns: u64, max_ns: u64) -> Self {
        Self { min_ns, max_ns, tail_once_in: 0 }
    }

    #[inline]
    pub(crate) fn draw(self, dice: &mut Dice) -> u64 {
        let ns = dice.between(self.min_ns, self.max_ns);
        if self.tail_once_in > 0 && dice.once_in(self.tail_once_in) { ns * 16 } else { ns }
    }
}

/// How long each step of an access takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// A worker's own part of a call, and its pause until the next one.
    pub worker: Spread,
    /// From the worker to the channel's inbox.
    pub enqueue: Spread,
    /// Until a channel takes an input from its inbox or from what a connection received.
    pub turn: Spread,
    /// A frame's way through the network, apart from its length.
    pub network: Spread,
    /// What every KiB of a frame occupies its connection.
    pub network_ns_per_kib: u64,
    /// From the channel to the worker's queue.
    pub deliver: Spread,
    /// Until the worker takes a completion from its queue.
    pub intake: Spread,
}

impl Delays {
    /// A network of 10 Gbit/s with a round trip of about 50 µs between machines whose threads answer within microseconds.
    #[must_use]
    pub const fn ten_gigabit() -> Self {
        Self {
            worker: Spread::even(200, 400),
            enqueue: Spread::even(100, 300),
            turn: Spread::even(500, 2_000),
            network: Spread { min_ns: 15_000, max_ns: 25_000, tail_once_in: 1_000 },
            network_ns_per_kib: 820,
            deliver: Spread::even(100, 300),
            intake: Spread::even(300, 2_000),
        }
    }

    /// Durations that make races likely: each step is fast, slow or very slow compared to the others.
    pub(crate) fn wild(dice: &mut Dice) -> Self {
        let mut spread = || {
            let max_ns = dice.pick(&[1, 30, 300, 3_000, 30_000]);
            Spread { min_ns: 1, max_ns, tail_once_in: dice.pick(&[0, 4, 16]) }
        };
        Self {
            worker: spread(),
            enqueue: spread(),
            turn: spread(),
            network: spread(),
            network_ns_per_kib: 10,
            deliver: spread(),
            intake: spread(),
        }
    }
}
