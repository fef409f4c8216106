//! Files of either format, as rows.

use super::libsvm;
use super::line::{Label, Line, Normalize, Transform};
use super::names::{Hashed, Naming};
use super::rows::Rows;
use super::table::{Columns, Table};
use clap::ValueEnum;
use intendant_formats::{NameIndex, TextError, lines_up_to, open};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The longest line that is accepted: rows may have hundreds of thousands of features.
const LINE_BYTES_MAX: usize = 1 << 26;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A label, then `INDEX:VALUE` of features that are not zero.
    Libsvm,
    /// A column with the label, the others with features; names are hashed.
    Csv,
}

impl Format {
    /// The format that the name of a file implies: names that end in `.csv` or `.tsv`, possibly followed by
    /// `.zst`, are tables.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let name = name.strip_suffix(".zst").unwrap_or(&name);
        if name.ends_with(".csv") || name.ends_with(".tsv") { Self::Csv } else { Self::Libsvm }
    }
}

/// How files become rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The format of all files.
    pub format: Format,
    /// The columns of tables.
    pub columns: Columns,
    /// Number of bits of the slots to which features of tables are hashed.
    pub hash_bits: u8,
    /// How each value is transformed.
    pub transform: Transform,
    /// How each row is normalised.
    pub normalize: Normalize,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            format: Format::Libsvm,
            columns: Columns::default(),
            hash_bits: HASH_BITS,
            transform: Transform::None,
            normalize: Normalize::None,
        }
    }
}

/// Default number of bits of a hash.
pub const HASH_BITS: u8 = 18;

/// Why data cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file cannot be read, or a line is not in the format.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A file without rows.
    #[error("{file} holds no rows; expected a label and features on each line")]
    Empty {
        /// The file.
        file: String,
    },
    /// Files that need far fewer features than their largest number.
    #[error("{file}: {what}")]
    Gaps {
        /// The training file.
        file: String,
        /// How many features it has, and what to do.
        what: String,
    },
    /// A fraction that holds out nothing or everything.
    #[error("holding out a fraction of {fraction} of {rows} rows leaves nothing to train on or to evaluate")]
    HoldOut {
        /// The fraction.
        fraction: f64,
        /// Training rows.
        rows: usize,
    },
}

/// The error of a line that is not in libsvm's format, and may be one of a table.
fn maybe_table(line: &str, what: String) -> String {
    if line.contains([',', ';', '\t']) {
        format!("{what}; if this is a table, add --format csv")
    } else {
        what
    }
}

/// Reads files, and keeps what they have in common.
pub(super) struct Reader {
    reading: Reading,
    names: (Hashed, NameIndex),
    line: Line,
}

impl Reader {
    pub(super) fn new(reading: Reading) -> Self {
        let names = (Hashed::new(reading.hash_bits), NameIndex::default());
        Self { reading, names, line: Line::default() }
    }

    /// The rows of a file.
    pub(super) fn read(&mut self, path: &Path) -> Result<Rows, DataError> {
        let file = path.display().to_string();
        let Self { reading, names, line: row } = self;
        let (mut rows, mut table, mut negative) = (Rows::default(), None, None);
        lines_up_to(LINE_BYTES_MAX, &file, open(path)?, |text| {
            row.entries.clear();
            let label = match reading.format {
                Format::Libsvm => libsvm::parse(text, row).map_err(|what| maybe_table(text, what))?,
                Format::Csv => {
                    if table.is_none() {
                        let (begun, is_header) = Table::begin(text, &reading.columns)?;
                        table = Some(begun);
                        if is_header {
                            return Ok(());
                        }
                    }
                    table.as_mut().map(|table| table.parse(text, names, row)).transpose()?
                }
            };
            let Some(label) = label else { return Ok(()) };
            if label != Label::Positive && *negative.get_or_insert(label) != label {
                return Err("labels are 0 and -1; they must be 0 and 1, or -1 and 1".to_owned());
            }
            row.finish(reading.transform, reading.normalize)?;
            let entries = row.entries.iter().map(|(feature, value)| (*feature, *value as f32));
            rows.push(label == Label::Positive, entries);
            Ok(())
        })?;
        if rows.is_empty() {
            return Err(DataError::Empty { file });
        }
        Ok(rows)
    }

    /// The number of features that occurred in the files, and their names.
    pub(super) fn end(self) -> (u32, Naming) {
        match self.reading.format {
            Format::Libsvm => (self.line.features, Naming::Numbers),
            Format::Csv => (1 << self.reading.hash_bits, Naming::Hashed(self.names.0)),
        }
    }
}
