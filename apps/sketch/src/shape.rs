//! The kinds of sketches, and their sizes.

use intendant_core::{Key, limits};
use serde::{Deserialize, Serialize};

/// A kind of sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// CountMin: each row adds the count to one cell; the estimate is the least of the cells. It is never
    /// below the truth, and is more than ε N above it with probability δ at most.
    CountMin,
    /// Count-sketch: each row adds the count, or subtracts it; the estimate is the median of the cells with
    /// their signs. It is more than ε ‖f‖₂ from the truth with probability δ at most.
    CountSketch,
}

/// The number of rows, the number of cells of a row, and how cells are grouped into values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What the cells hold.
    pub kind: Kind,
    /// Rows.
    pub depth: usize,
    /// Cells of a row: a multiple of `block`.
    pub width: u64,
    /// Cells of a key's value.
    pub block: usize,
}

/// Maximum number of rows: the probability that an item's error is too large is then about e^-128.
pub(crate) const DEPTH_MAX: usize = 255;

/// Maximum number of cells of a row: blocks are counted in 32 bits.
pub(crate) const WIDTH_MAX: u64 = 1 << 36;

/// Maximum number of cells of a block: a value is within its limit.
pub(crate) const BLOCK_MAX: usize = limits::VALUE_BYTES_MAX / 8;

/// Maximum number of blocks: batches number them in 32 bits.
pub(crate) const BLOCKS_MAX: u64 = u32::MAX as u64 - 1;

impl Kind {
    /// Number of cells of a row for an error of `epsilon`: ⌈e/ε⌉ with CountMin; ⌈4 e/ε²⌉ with count-sketch,
    /// where a row is off by more than ε ‖f‖₂ with probability at most 1/(4 e) (Chebyshev).
    #[must_use]
    pub fn width(self, epsilon: f64) -> f64 {
        use std::f64::consts::E;
        match self {
            Self::CountMin => (E / epsilon).ceil(),
            Self::CountSketch => (4.0 * E / (epsilon * epsilon)).ceil(),
        }
    }

    /// The error that `width` cells guarantee.
    #[must_use]
    pub fn epsilon(self, width: u64) -> f64 {
        use std::f64::consts::E;
        match self {
            Self::CountMin => E / width as f64,
            Self::CountSketch => (4.0 * E / width as f64).sqrt(),
        }
    }

    /// Number of rows for a probability of `delta`. With CountMin, it is ⌈ln 1/δ⌉. With count-sketch, it is
    /// the smallest odd number that is at least ⌈2 ln 1/δ⌉. With p = 1/(4 e), half of the d rows are off with
    /// probability (4 p (1 - p))^(d/2) < e^(-d/2) (Chernoff).
    #[must_use]
    pub fn depth(self, delta: f64) -> usize {
        let rows = -delta.ln();
        match self {
            Self::CountMin => rows.ceil().max(1.0) as usize,
            Self::CountSketch => (2.0 * rows).ceil() as usize | 1,
        }
    }

    /// The probability that `depth` rows guarantee.
    #[must_use]
    pub fn delta(self, depth: usize) -> f64 {
        match self {
            Self::CountMin => (-(depth as f64)).exp(),
            Self::CountSketch => (-(depth as f64) / 2.0).exp(),
        }
    }
}

impl Shape {
    /// Keys of a row.
    #[must_use]
    pub const fn row_blocks(&self) -> u64 {
        self.width / self.block as u64
    }

    /// Keys of all rows. The next key holds the sums of all counts ([`Shape::inserted_key`]).
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.row_blocks() * self.depth as u64
    }

    /// The key of a cell, and its place in the key's value.
    #[inline]
    #[must_use]
    pub const fn place(&self, row: usize, cell: u64) -> (u64, usize) {
        let block = self.block as u64;
        (row as u64 * self.row_blocks() + cell / block, (cell % block) as usize)
    }

    /// The key of the sums of all counts.
    #[must_use]
    pub const fn inserted_key(&self) -> Key {
        Key(self.blocks())
    }

    /// Elements of that key's value: N; with count-sketch, then the sums of the signed counts of each row.
    /// The cells of a row must add up to these.
    #[must_use]
    pub const fn inserted_len(&self) -> usize {
        match self.kind {
            Kind::CountMin => 1,
            Kind::CountSketch => 1 + self.depth,
        }
    }

    /// The sum that the cells of a row must have, computed from the value of the inserted key.
    pub(crate) fn expected_sum(&self, inserted: &[f64], row: usize) -> f64 {
        match self.kind {
            Kind::CountMin => inserted[0],
            Kind::CountSketch => inserted[1 + row],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_bounds() {
        let min = Kind::CountMin;
        assert_eq!((min.width(1e-4), min.depth(0.01)), (27_183.0, 5));
        assert_eq!((min.width(0.5), min.depth(0.5)), (6.0, 1));
        let sketch = Kind::CountSketch;
        assert_eq!((sketch.width(0.01), sketch.depth(0.01)), (108_732.0, 11));
        for kind in [min, sketch] {
            for (epsilon, delta) in [(0.3, 0.4), (0.01, 0.05), (1e-3, 1e-6)] {
                let (width, depth) = (kind.width(epsilon) as u64, kind.depth(delta));
                assert!(kind.epsilon(width) <= epsilon && kind.delta(depth) <= delta, "{kind:?} {epsilon}");
                assert!(kind.epsilon(width - 1) > epsilon, "{kind:?}: no cell too many for {epsilon}");
            }
        }
    }

    #[test]
    fn every_cell_has_its_place() {
        let shape = Shape { kind: Kind::CountMin, depth: 3, width: 12, block: 4 };
        let places: Vec<_> = (0..3).flat_map(|row| (0..12).map(move |cell| shape.place(row, cell))).collect();
        let expected: Vec<_> = (0..9).flat_map(|key| (0..4).map(move |at| (key, at))).collect();
        assert_eq!(places, expected);
        assert_eq!((shape.blocks(), shape.inserted_key(), shape.inserted_len()), (9, Key(9), 1));
        let signed = Shape { kind: Kind::CountSketch, ..shape };
        assert_eq!(signed.inserted_len(), 4);
        assert_eq!(signed.expected_sum(&[9.0, 1.0, -2.0, 3.0], 1), -2.0);
        assert_eq!(shape.expected_sum(&[9.0], 1), 9.0);
    }
}
