//! The manifest of a checkpoint: the checkpoint's contents, and the size and sums of each of its files.
//!
//! The file of the manifest also has its own sum: the XXH3 of the file with zeros in place of the digits of
//! the sum.

use crate::CheckpointError;
use crate::schema::{SCHEMA, SCHEMAS};
use intendant_core::{ElementType, KeyRange};
use serde::{Deserialize, Serialize};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// The text before the digits of the sum. The sum is the last member of the JSON object.
const SUM: &[u8] = b"\"sum\": \"";

/// The digits of a sum that is not known yet.
const ZEROS: &str = "0000000000000000";

/// A range of keys of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The name of what the keys stand for.
    pub name: String,
    /// Number of keys. Keys are numbered range by range, from 0.
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
    /// Number of keys in it.
    pub keys: u64,
    /// XXH3 (64 bits, 16 hexadecimal digits) of each block of [`Part::BLOCK`] bytes; the last block may be
    /// shorter.
    pub blocks: Vec<String>,
}

impl Part {
    /// Bytes of a block.
    pub const BLOCK: usize = 1 << 22;
}

/// A manifest as it is written.
#[derive(Serialize)]
struct Sealed<'a> {
    #[serde(flatten)]
    manifest: &'a Manifest,
    sum: &'a str,
}

/// The contents of a checkpoint. The manifest is written when all parts are written, so that a checkpoint
/// with a manifest is whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: String,
    /// Number of the checkpoint; later ones have greater numbers.
    pub cut: u64,
    /// Number of the checkpoint with the best model of the run so far, which may be this one. As long as this
    /// checkpoint is kept, that one is kept as well ([`crate::Folder::keep`]). Absent if no models were
    /// compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<u64>,
    /// Element type of the values: `f32` or `f64`.
    pub element: String,
    /// The key ranges of the model, in order.
    pub ranges: Vec<Range>,
    /// The files. Together they contain every key once.
    pub parts: Vec<Part>,
    /// The state that the run needs to go on, apart from the parameters.
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

    /// Number of keys of all ranges.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.ranges.iter().fold(0, |keys, range| keys.saturating_add(range.keys))
    }

    /// Bytes of all parts.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts.iter().fold(0, |bytes, part| bytes.saturating_add(part.bytes))
    }

    /// The file `manifest.json`.
    ///
    /// # Panics
    /// Never: every manifest can be serialised.
    #[must_use]
    pub fn to_file(&self) -> Vec<u8> {
        let sealed = Sealed { manifest: self, sum: ZEROS };
        let mut text = serde_json::to_vec_pretty(&sealed).expect("a manifest is valid JSON");
        text.push(b'\n');
        let sum = format!("{:016x}", xxh3_64(&text));
        let digits = digits(&text).expect("it has a sum");
        text[digits].copy_from_slice(sum.as_bytes());
        text
    }

    /// Parses the text that [`Manifest::to_file`] has written to the file at `path`.
    pub(crate) fn of_file(path: &Path, text: &[u8]) -> Result<Self, CheckpointError> {
        let damaged = |reason: String| CheckpointError::damaged(path, None, reason);
        let value: serde_json::Value =
            serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        // This checks the sum first, because a bit of the version may have changed. Every version with a sum
        // computes it in this way.
        let digits = digits(text);
        if let Some(digits) = digits.clone() {
            let mut zeroed = text.to_vec();
            zeroed[digits.clone()].copy_from_slice(ZEROS.as_bytes());
            if format!("{:016x}", xxh3_64(&zeroed)).as_bytes() != &text[digits] {
                return Err(damaged("its sum is not the one that was written".to_owned()));
            }
        }
        let schema = value.get("schema").and_then(serde_json::Value::as_str).unwrap_or_default();
        if schema != SCHEMA && schema.strip_prefix(SCHEMAS).is_some_and(|version| !version.is_empty()) {
            return Err(CheckpointError::Version { path: path.to_owned(), found: format!("'{schema}'") });
        }
        if digits.is_none() {
            return Err(damaged("it has no sum of its own".to_owned()));
        }
        if schema != SCHEMA {
            return Err(damaged(format!("its schema is '{schema}'")));
        }
        serde_json::from_value(value).map_err(|error| damaged(error.to_string()))
    }
}

/// The position of the digits of the sum.
fn digits(text: &[u8]) -> Option<std::ops::Range<usize>> {
    let before = text.windows(SUM.len()).rposition(|window| window == SUM)?;
    let first = before + SUM.len();
    let digits = first..first + ZEROS.len();
    (digits.end <= text.len()).then_some(digits)
}
