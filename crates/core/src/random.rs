//! Seeded functions that give the same answer everywhere: mixing, streams of seeds, permutations.

/// A bijection on 64-bit words whose output bits all depend on all input bits (the finaliser of SplitMix64).
#[inline]
#[must_use]
pub const fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A seed for the stream named by `parts`; streams with different names are independent for all practical
/// purposes.
#[inline]
#[must_use]
pub fn stream(seed: u64, parts: &[u64]) -> u64 {
    parts.iter().fold(mix(seed), |state, part| mix(state ^ mix(*part)))
}

/// A number in `[0, 1)` with 53 random bits, from a word that [`mix`] or [`stream`] returned.
#[inline]
#[must_use]
pub fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1u64 << 53) as f64
}

/// Rounds of a [`Permutation`].
const ROUNDS: usize = 4;

/// A seeded permutation of `0..len` that needs no memory: a Feistel network over the next power of four,
/// walked until it lands inside the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    /// One per round of the Feistel network.
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..len` that belongs to `seed`.
    #[must_use]
    pub const fn new(len: u64, seed: u64) -> Self {
        let bits = if len <= 1 { 2 } else { 64 - (len - 1).leading_zeros() };
        let mut keys = [0; ROUNDS];
        let mut round = 0;
        while round < ROUNDS {
            keys[round] = mix(seed ^ mix(round as u64));
            round += 1;
        }
        Self { len, half_bits: bits.div_ceil(2), keys }
    }

    /// The image of `index`.
    ///
    /// # Panics
    /// If `index` is not below the length.
    #[must_use]
    pub fn apply(&self, index: u64) -> u64 {
        assert!(index < self.len, "index {index} is outside of a permutation of {}", self.len);
        let mask = (1u64 << self.half_bits) - 1;
        let mut at = index;
        loop {
            let (mut left, mut right) = (at >> self.half_bits, at & mask);
            for key in self.keys {
                (left, right) = (right, left ^ (mix(right ^ key) & mask));
            }
            at = (left << self.half_bits) | right;
            if at < self.len {
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_permutation_hits_every_index_once(len in 1u64..600, seed: u64) {
            let permutation = Permutation::new(len, seed);
            let mut hit = vec![false; len as usize];
            for index in 0..len {
                let to = permutation.apply(index) as usize;
                prop_assert!(!hit[to]);
                hit[to] = true;
            }
        }

        #[test]
        fn large_ranges_stay_inside(index in 0u64..(1 << 62), seed: u64) {
            prop_assert!(Permutation::new(1 << 62, seed).apply(index) < 1 << 62);
        }
    }

    #[test]
    fn streams_differ_by_every_part() {
        assert_ne!(stream(1, &[2, 3]), stream(1, &[3, 2]));
        assert_ne!(stream(1, &[2]), stream(2, &[2]));
        assert_ne!(stream(1, &[2]), stream(1, &[2, 0]));
        // A seed must give the same model in all versions, so these words must not change.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
    }
}
