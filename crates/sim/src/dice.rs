//! Seeded random numbers: the only source of randomness in a simulation.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A seeded stream of random choices.
#[derive(Clone, Debug)]
pub struct Dice(Pcg64Mcg);

impl Dice {
    /// The stream that `seed` determines.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// 64 random bits.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform number below `end`, which must not be 0. The bias of the multiplication is below 2^-40 for
    /// the ranges used here.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        debug_assert!(end > 0, "nothing to choose from");
        ((u128::from(self.word()) * u128::from(end)) >> 64) as u64
    }

    /// A uniform number of `first..=last`.
    #[inline]
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// True with probability 1 / `times`.
    #[inline]
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
