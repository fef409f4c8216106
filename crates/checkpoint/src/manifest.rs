//! The manifest of a checkpoint: what it holds, and what each of its files must be.

use intendant_core::{ElementType, KeyRange};
use serde::{Deserialize, Serialize};

/// The version of the format.
pub const SCHEMA: &str = "intendant.checkpoint/1";

/// A range of keys of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// What the keys stand for.
    pub name: String,
    /// How many there are. Keys are numbered range by range, from 0.
    pub keys: u64,
    /// Elements per value.
    pub len: usize,
}

impl From<&KeyRange> for Range {
    fn from(range: &KeyRange) -> Self {
        Self { name: range.name.clone(), keys: range.keys.end - range.keys.start, len: range.len }
    }
}

/// A file with some of the values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its name in the folder of the checkpoint.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Keys in it.
    pub keys: u64,
    /// XXH3 (64 bits, 16 hexadecimal digits) of each block of [`Part::BLOCK`] bytes; the last block may be
    /// shorter.
    pub blocks: Vec<String>,
}

impl Part {
    /// Bytes of a block.
    pub const BLOCK: usize = 1 << 22;
}

/// What a checkpoint holds. It is written when all parts are, so that a checkpoint with a manifest is whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: String,
    /// Number of the checkpoint; later ones have greater numbers.
    pub cut: u64,
    /// Number of the checkpoint with the best model of the run so far, which may be this one. As long as this
    /// one is kept, that one is ([`crate::Folder::keep`]). Absent if nothing was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<u64>,
    /// Element type of the values: `f32` or `f64`.
    pub element: String,
    /// The key ranges of the model, in order.
    pub ranges: Vec<Range>,
    /// The files. Together they have every key once.
    pub parts: Vec<Part>,
    /// What else the run needs to go on.
    pub run: serde_json::Value,
}

impl Manifest {
    /// A manifest of this version, without a best model.
    #[must_use]
    pub fn new(
        cut: u64,
        element: ElementType,
        ranges: Vec<Range>,
        parts: Vec<Part>,
        run: serde_json::Value,
    ) -> Self {
        Self { schema: SCHEMA.to_owned(), cut, best: None, element: element.to_string(), ranges, parts, run }
    }

    /// Keys of all ranges.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.ranges.iter().fold(0, |keys, range| keys.saturating_add(range.keys))
    }

    /// Bytes of all parts.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts.iter().fold(0, |bytes, part| bytes.saturating_add(part.bytes))
    }
}
