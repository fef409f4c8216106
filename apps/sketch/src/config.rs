//! Settings and their limits.

use crate::data::Items;
use crate::hash::Hashes;
use crate::shape::{BLOCK_MAX, BLOCKS_MAX, DEPTH_MAX, Kind, Shape, WIDTH_MAX};
use intendant_train::SettingError;

/// Default number of cells of a block: bookkeeping of a key is then a small part of its value, and there are
/// enough keys to share among nodes.
pub const BLOCK_DEFAULT: usize = 64;

/// Default probability that an item's error is larger than its bound.
pub const DELTA_DEFAULT: f64 = 0.01;

/// Maximum number of bytes of a piece: a piece is in memory.
pub(crate) const BATCH_BYTES_MAX: u64 = 1 << 30;

/// Maximum number of heavy hitters: each worker sends ten times as many candidates in messages.
pub(crate) const TOP_MAX: usize = 1000;

/// Maximum number of elements of a batch's values: they must fit into memory several times, for each worker.
const ELEMENTS_MAX: u64 = 1 << 28;

/// Sizes of a sketch as a user gives them: by the error and its probability, or directly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// What the cells hold.
    pub kind: Kind,
    /// Error, as a part of N (CountMin) or of ‖f‖₂ (count-sketch).
    pub epsilon: Option<f64>,
    /// Probability of a larger error.
    pub delta: Option<f64>,
    /// Cells of a row, instead of `epsilon`.
    pub width: Option<u64>,
    /// Rows, instead of `delta`.
    pub depth: Option<usize>,
    /// Cells of a key's value.
    pub block: usize,
}

impl Sizes {
    /// The shape. The width is rounded up to a multiple of the block, because every block is complete.
    ///
    /// # Errors
    /// Names the first size that is out of its limits.
    pub fn shape(&self) -> Result<Shape, SettingError> {
        let wrong = |name, value: String, allowed: String| Err(SettingError::new(name, value, allowed));
        let Self { kind, block, .. } = *self;
        if !(1..=BLOCK_MAX).contains(&block) {
            return wrong("block", block.to_string(), format!("a number from 1 to {BLOCK_MAX}"));
        }
        let part = |name, value: Option<f64>, default: f64| {
            let value = value.unwrap_or(default);
            let allowed = "a number between 0 and 1, both excluded";
            if value > 0.0 && value < 1.0 { Ok(value) } else { Err(SettingError::new(name, value, allowed)) }
        };
        let epsilon = part("epsilon", self.epsilon, Self::epsilon_default(kind))?;
        let delta = part("delta", self.delta, DELTA_DEFAULT)?;
        let width = match self.width {
            Some(width) if width == 0 || width > WIDTH_MAX => {
                return wrong("width", width.to_string(), format!("a number from 1 to {WIDTH_MAX}"));
            }
            Some(width) => width,
            None => {
                let width = kind.width(epsilon);
                if width > WIDTH_MAX as f64 {
                    let allowed =
                        format!("so large that a row has at most {WIDTH_MAX} cells; here it has {width}");
                    return wrong("epsilon", epsilon.to_string(), allowed);
                }
                width as u64
            }
        };
        let depth = match self.depth {
            Some(depth) if depth == 0 || depth > DEPTH_MAX => {
                return wrong("depth", depth.to_string(), format!("a number from 1 to {DEPTH_MAX}"));
            }
            Some(depth) => depth,
            None => {
                let depth = kind.depth(delta);
                if depth > DEPTH_MAX {
                    let allowed =
                        format!("so large that there are at most {DEPTH_MAX} rows; here are {depth}");
                    return wrong("delta", delta.to_string(), allowed);
                }
                depth
            }
        };
        let width = width.next_multiple_of(block as u64);
        let shape = Shape { kind, depth, width, block };
        if shape.blocks() > BLOCKS_MAX {
            let value = format!("{block} with {depth} rows of {width} cells");
            let allowed = format!("so large that there are at most {BLOCKS_MAX} blocks");
            return wrong("block", value, allowed);
        }
        Ok(shape)
    }

    /// The default error: about a megabyte of cells with CountMin, ten with count-sketch.
    #[must_use]
    pub const fn epsilon_default(kind: Kind) -> f64 {
        match kind {
            Kind::CountMin => 1e-4,
            Kind::CountSketch => 0.01,
        }
    }
}

/// How a stream is counted; [`crate::Counting::new`] checks it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Size of the sketch.
    pub shape: Shape,
    /// Its hash functions.
    pub hashes: Hashes,
    /// What an item is.
    pub items: Items,
    /// Whether the counts of equal items of a batch are added up before they are hashed to cells.
    pub aggregate: bool,
    /// Heavy hitters to find; 0 finds none.
    pub top: usize,
    /// The part of the distinct items whose true counts are compared with their estimates; 0 compares none.
    pub exact: f64,
    /// Passes over the stream.
    pub epochs: u32,
}

impl Config {
    /// Checks whether a sketch with these settings can be made from batches of `batch_bytes` bytes.
    ///
    /// # Errors
    /// Names the first setting that is out of its limits.
    pub fn check(&self, batch_bytes: u64) -> Result<(), SettingError> {
        let wrong = |name, value: String, allowed: String| Err(SettingError::new(name, value, allowed));
        if self.top > TOP_MAX {
            return wrong("top", self.top.to_string(), format!("a number from 0 to {TOP_MAX}"));
        }
        if !(0.0..=1.0).contains(&self.exact) {
            let allowed = "a part of the distinct items, from 0 (none) to 1 (all)".to_owned();
            return wrong("exact", self.exact.to_string(), allowed);
        }
        if batch_bytes == 0 || batch_bytes > BATCH_BYTES_MAX {
            return wrong(
                "batch-bytes",
                batch_bytes.to_string(),
                format!("a number from 1 to {BATCH_BYTES_MAX}"),
            );
        }
        let Shape { depth, block, .. } = self.shape;
        // An item has a byte and a separator after it. No factor exceeds its own maximum.
        let blocks = (batch_bytes.div_ceil(2) * depth as u64).min(self.shape.blocks());
        let elements = blocks * block as u64;
        if elements > ELEMENTS_MAX {
            let value = format!("{batch_bytes} with {depth} rows and blocks of {block} cells");
            let allowed = format!(
                "so small that the blocks of a batch have at most {ELEMENTS_MAX} cells; here they may have {elements}"
            );
            return wrong("batch-bytes", value, allowed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        kind: Kind::CountMin,
        epsilon: None,
        delta: None,
        width: None,
        depth: None,
        block: BLOCK_DEFAULT,
    };

    #[test]
    fn sizes_follow_from_the_error_and_its_probability() {
        let shape = SIZES.shape().unwrap();
        assert_eq!((shape.width, shape.depth, shape.blocks()), (27_200, 5, 2_125));
        let direct = Sizes { width: Some(100), depth: Some(3), block: 1, ..SIZES }.shape().unwrap();
        assert_eq!((direct.width, direct.depth, direct.blocks()), (100, 3, 300));
        let signed = Sizes { kind: Kind::CountSketch, ..SIZES }.shape().unwrap();
        assert_eq!((signed.width, signed.depth), (108_736, 11));
    }

    #[test]
    fn sizes_without_sense_are_refused() {
        let refused = |change: fn(&mut Sizes)| {
            let mut sizes = SIZES;
            change(&mut sizes);
            sizes.shape().unwrap_err().to_string()
        };
        let part = "it must be a number between 0 and 1, both excluded";
        assert_eq!(refused(|s| s.epsilon = Some(0.0)), format!("epsilon is 0; {part}"));
        assert_eq!(refused(|s| s.epsilon = Some(f64::NAN)), format!("epsilon is NaN; {part}"));
        assert_eq!(refused(|s| s.delta = Some(1.0)), format!("delta is 1; {part}"));
        assert_eq!(
            refused(|s| s.epsilon = Some(1e-12)),
            "epsilon is 0.000000000001; it must be so large that a row has at most 68719476736 cells; here it has \
             2718281828460"
        );
        assert_eq!(refused(|s| s.width = Some(0)), "width is 0; it must be a number from 1 to 68719476736");
        assert_eq!(refused(|s| s.depth = Some(256)), "depth is 256; it must be a number from 1 to 255");
        assert_eq!(
            refused(|s| s.delta = Some(1e-200)),
            format!("delta is {}; it must be so large that there are at most 255 rows; here are 461", 1e-200)
        );
        assert_eq!(refused(|s| s.block = 0), "block is 0; it must be a number from 1 to 524288");
        let many = refused(|s| (s.width, s.depth, s.block) = (Some(1 << 33), Some(4), 1));
        assert_eq!(
            many,
            "block is 1 with 4 rows of 8589934592 cells; it must be so large that there are at most 4294967294 blocks"
        );
    }

    #[test]
    fn settings_without_sense_are_refused() {
        let shape = SIZES.shape().unwrap();
        let hashes = Hashes::new(1, &shape);
        let config =
            Config { shape, hashes, items: Items::Lines, aggregate: true, top: 10, exact: 0.5, epochs: 1 };
        config.check(1 << 18).unwrap();
        let refused = |config: Config, bytes| config.check(bytes).unwrap_err().to_string();
        assert_eq!(
            refused(Config { top: 1001, ..config.clone() }, 9),
            "top is 1001; it must be a number from 0 to 1000"
        );
        assert_eq!(
            refused(Config { exact: 1.5, ..config.clone() }, 9),
            "exact is 1.5; it must be a part of the distinct items, from 0 (none) to 1 (all)"
        );
        assert!(refused(config.clone(), 0).starts_with("batch-bytes is 0; it must be a number from 1 to "));
        let wide = Sizes { width: Some(1 << 30), ..SIZES }.shape().unwrap();
        assert_eq!(
            refused(Config { shape: wide, ..config }, 1 << 22),
            "batch-bytes is 4194304 with 5 rows and blocks of 64 cells; it must be so small that the blocks of a batch \
             have at most 268435456 cells; here they may have 671088640"
        );
    }
}
