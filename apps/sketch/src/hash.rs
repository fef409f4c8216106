//! The hash functions of a sketch.
//!
//! A row hashes an item, a 64-bit number, by multiply-shift: the upper half of `(a · x + b) mod 2^128`, with
//! `a` and `b` of 128 random bits. Over the choice of `a` and `b`, the hashes of two different numbers are
//! independent and uniform 64-bit words [Dietzfelbinger 1996]. The bounds of CountMin [Cormode 2005] and of
//! count-sketch [Charikar 2002] require this. A hash `h` becomes the cell `⌊h · width / 2^64⌋`: each cell has
//! the probability 1/width up to 2^-64. The sign of a count-sketch is the highest bit of a second function.

use crate::shape::{Kind, Shape};
use intendant_core::random::stream;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A pairwise independent function from 64 to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiplyShift {
    /// The factor.
    pub a: u128,
    /// The summand.
    pub b: u128,
}

impl MultiplyShift {
    /// The function with this name that belongs to a seed.
    fn new(seed: u64, name: &[u64; 2]) -> Self {
        let word = |part: u64| u128::from(stream(seed, &[name[0], name[1], part]));
        Self { a: word(0) << 64 | word(1), b: word(2) << 64 | word(3) }
    }

    /// The hash of `x`.
    #[inline]
    #[must_use]
    pub const fn hash(&self, x: u64) -> u64 {
        (self.a.wrapping_mul(x as u128).wrapping_add(self.b) >> 64) as u64
    }
}

/// The functions of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Chooses the cell.
    pub index: MultiplyShift,
    /// Chooses the sign; `None` with CountMin.
    pub sign: Option<MultiplyShift>,
}

/// All functions of a sketch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashes {
    /// The seed of the hash that turns text into numbers.
    pub text_seed: u64,
    /// One per row.
    pub rows: Vec<Row>,
}

/// Names of the uses of the seed.
const TEXT: u64 = 1;
const INDEX: u64 = 2;
const SIGN: u64 = 3;

impl Hashes {
    /// The hash functions of a sketch of this shape, determined by a seed.
    #[must_use]
    pub fn new(seed: u64, shape: &Shape) -> Self {
        let signed = shape.kind == Kind::CountSketch;
        let row = |row: u64| Row {
            index: MultiplyShift::new(seed, &[INDEX, row]),
            sign: signed.then(|| MultiplyShift::new(seed, &[SIGN, row])),
        };
        Self { text_seed: stream(seed, &[TEXT]), rows: (0..shape.depth as u64).map(row).collect() }
    }

    /// The number of a text. The sketch treats items with equal numbers as one item. Two texts have equal
    /// numbers with probability 2^-64.
    #[inline]
    #[must_use]
    pub fn of_text(&self, text: &[u8]) -> u64 {
        xxh3_64_with_seed(text, self.text_seed)
    }
}

impl Row {
    /// The cell of `x` in a row of `width` cells.
    #[inline]
    #[must_use]
    pub const fn cell(&self, x: u64, width: u64) -> u64 {
        ((self.index.hash(x) as u128 * width as u128) >> 64) as u64
    }

    /// Whether `x` counts negatively in this row.
    #[inline]
    #[must_use]
    pub const fn is_negative(&self, x: u64) -> bool {
        match &self.sign {
            Some(sign) => sign.hash(x) >> 63 == 1,
            None => false,
        }
    }
}

/// A [`MultiplyShift`] in files: both numbers as 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    a: String,
    b: String,
}

impl Written {
    pub(crate) fn of(function: &MultiplyShift) -> Self {
        Self { a: format!("{:032x}", function.a), b: format!("{:032x}", function.b) }
    }

    /// The function; `None` if a number is malformed.
    pub(crate) fn read(&self) -> Option<MultiplyShift> {
        let number = |text: &str| {
            let all_digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            all_digits.then(|| u128::from_str_radix(text, 16).ok()).flatten()
        };
        Some(MultiplyShift { a: number(&self.a)?, b: number(&self.b)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::random::mix;

    fn hashes(seed: u64, kind: Kind, width: u64) -> Hashes {
        Hashes::new(seed, &Shape { kind, depth: 1, width, block: 1 })
    }

    /// Exported sketches depend on these numbers: none of them may ever change.
    #[test]
    fn the_functions_of_a_seed_are_a_promise() {
        let function = MultiplyShift { a: 3 << 64 | 5, b: 1 << 127 };
        assert_eq!(function.hash(7), (1 << 63) + 21);
        assert_eq!(function.hash(u64::MAX), (1u64 << 63).wrapping_sub(3).wrapping_add(4));
        let hashes = hashes(1, Kind::CountSketch, 100);
        assert_eq!(hashes.text_seed, stream(1, &[1]));
        assert_eq!((hashes.rows[0].index.a >> 64) as u64, stream(1, &[2, 0, 0]));
        assert_eq!(hashes.rows[0].sign.unwrap().b as u64, stream(1, &[3, 0, 3]));
        assert_eq!(hashes.of_text(b"abc"), xxh3_64_with_seed(b"abc", hashes.text_seed));
    }

    /// Over the choice of functions, the cells of two numbers take each pair of values equally often. The
    /// pairs are difficult ones: neighbours, and numbers that differ only in the highest bit.
    #[test]
    fn cells_of_two_items_are_independent_over_the_choice_of_functions() {
        const WIDTH: u64 = 8;
        const DRAWS: u64 = 64 * 2000;
        for (x, y) in [(0, 1), (7, 7 | 1 << 63), (u64::MAX, u64::MAX - 1), (mix(3), mix(4)), (1, 1 << 32)] {
            let mut counts = [0u64; 64];
            for seed in 0..DRAWS {
                let row = hashes(seed, Kind::CountMin, WIDTH).rows[0];
                counts[(row.cell(x, WIDTH) * WIDTH + row.cell(y, WIDTH)) as usize] += 1;
            }
            // Chi-square with 63 degrees of freedom: its mean is 63, its standard deviation 11.2.
            let expected = DRAWS as f64 / 64.0;
            let chi: f64 = counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
            assert!((30.0..120.0).contains(&chi), "{x}, {y}: {chi}");
        }
    }

    /// The same for signs, and for signs against cells.
    #[test]
    fn signs_are_fair_and_independent_of_each_other_and_of_cells() {
        const DRAWS: u64 = 40_000;
        let tolerance = 4.5 * (DRAWS as f64).sqrt();
        for (x, y) in [(0, 1), (5, 5 | 1 << 63), (u64::MAX, 0)] {
            let (mut sum, mut both, mut with_cell) = (0i64, 0i64, 0i64);
            for seed in 0..DRAWS {
                let row = hashes(seed, Kind::CountSketch, 2).rows[0];
                let sign = |x| if row.is_negative(x) { -1 } else { 1 };
                sum += sign(x);
                both += sign(x) * sign(y);
                with_cell += sign(x) * if row.cell(x, 2) == 0 { 1 } else { -1 };
            }
            for moment in [sum, both, with_cell] {
                assert!((moment as f64).abs() < tolerance, "{x}, {y}: {moment} of {DRAWS}");
            }
        }
    }

    /// These statistics detect a bad family: without the upper half of the factor, all small numbers have
    /// about the hash of 0.
    #[test]
    fn a_weak_factor_is_noticed() {
        let mut same = 0;
        for seed in 0..1000 {
            let mut row = hashes(seed, Kind::CountMin, 8).rows[0];
            row.index.a &= u128::from(u64::MAX);
            same += u64::from(row.cell(0, 8) == row.cell(1, 8));
        }
        assert!(same > 990, "{same}");
    }

    #[test]
    fn functions_are_written_and_read() {
        let function = hashes(9, Kind::CountMin, 10).rows[0].index;
        assert_eq!(Written::of(&function).read(), Some(function));
        for a in ["", "0", "+0000000000000000000000000000001", "g0000000000000000000000000000000"] {
            let written = Written { a: a.to_owned(), ..Written::of(&function) };
            assert_eq!(written.read(), None, "{a}");
        }
    }
}
