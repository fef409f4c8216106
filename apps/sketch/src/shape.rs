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

/// A number of rows and of cells of a row, and how cells are gathered to values.
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

/// Rows at most: the error of each item is then too large with a probability of e^-128 or so.
pub(crate) const DEPTH_MAX: usize = 255;

/// Cells of a row at most: blocks are counted in 32 bits.
pub(crate) const WIDTH_MAX: u64 = 1 << 36;

/// Cells of a block at most: a value is within its limit.
pub(crate) const BLOCK_MAX: usize = limits::VALUE_BYTES_MAX / 8;

/// Blocks at most: batches number them in 32 bits.
pub(crate) const BLOCKS_MAX: u64 = u32::MAX as u64 - 1;

impl Kind {
    /// Cells of a row for an error of `epsilon`: ⌈e/ε⌉ with CountMin; ⌈4 e/ε²⌉ with count-sketch, where a row
    /// is off by more than ε ‖f‖₂ with probability 1/(4 e) at most (Chebyshev).
    #[must_use]
    pub fn width(self, epsilon: f64) -> f64 {
        use std::f64::consts::E;
        match self {
            Self::CountMin => (E / epsilon).ceil(),
            Self::CountSketch => (4.0 * E / (epsilon * epsilon)).ceil(),
        }
    }

    /// The error that so many cells bound.
    #[must_use]
    pub fn epsilon(self, width: u64) -> f64 {
        use std::f64::consts::E;
        match self {
            Self::CountMin => E / width as f64,
            Self::CountSketch => (4.0 * E / width as f64).sqrt(),
        }
    }

    /// Rows for a probability of `delta`: ⌈ln 1/δ⌉ with CountMin; with count-sketch the next odd number from
    /// ⌈2 ln 1/δ⌉ on: that half of d rows are off has a probability of (4 p (1 - p))^(d/2) < e^(-d/2)
    /// (Chernoff), where p = 1/(4 e).
    #[must_use]
    pub fn depth(self, delta: f64) -> usize {
        let rows = -delta.ln();
        match self {
            Self::CountMin => rows.ceil().max(1.0) as usize,
            Self::CountSketch => (2.0 * rows).ceil() as usize | 1,
        }
    }

    /// The probability that so many rows bound.
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

    /// Keys of all rows. The key after them holds what was inserted ([`Shape::inserted_key`]).
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

    /// The key of what was inserted.
    #[must_use]
    pub const fn inserted_key(&self) -> Key {
        Key(self.blocks())
    }

    /// Elements of that key's value: N; with count-sketch, then the sums of the signed counts of each row.
    /// They are what the cells of a row add up to.
    #[must_use]
    pub const fn inserted_len(&self) -> usize {
        match self.kind {
            Kind::CountMin => 1,
            Kind::CountSketch => 1 + self.depth,
        }
    }

    /// What the cells of a row must add up to, from the value of the inserted key.
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
