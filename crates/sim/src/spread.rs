//! Random durations.

use crate::dice::Dice;

/// A random duration in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Lower bound.
    pub min_ns: u64,
    /// Upper bound, outside of the tail.
    pub max_ns: u64,
    /// One in `tail_once_in` durations is stretched sixteenfold; 0 disables the tail.
    pub tail_once_in: u64,
}

impl Spread {
    /// The constant `ns`.
    #[must_use]
    pub const fn fixed(ns: u64) -> Self {
        Self { min_ns: ns, max_ns: ns, tail_once_in: 0 }
    }

    /// Uniform between `min_ns` and `max_ns`.
    #[must_use]
    pub const fn even(min_ns: u64, max_ns: u64) -> Self {
        Self { min_ns, max_ns, tail_once_in: 0 }
    }

    #[inline]
    pub(crate) fn draw(self, dice: &mut Dice) -> u64 {
        if self.max_ns == self.min_ns && self.tail_once_in == 0 {
            return self.min_ns;
        }
        let ns = dice.between(self.min_ns, self.max_ns);
        if self.tail_once_in > 0 && dice.once_in(self.tail_once_in) { ns * 16 } else { ns }
    }
}
