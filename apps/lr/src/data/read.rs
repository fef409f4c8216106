//! Files of either format, as rows.

use super::libsvm;
use super::line::{Label, Labels, Line, Normalize, Transform};
use super::names::{Hashed, Naming, slot};
use super::rows::{Row, Rows};
use super::table::{Columns, Header, Table};
use clap::ValueEnum;
use intendant_formats::{Compression, NameIndex, TextError, lines_up_to, open};
use serde::{Deserialize, Serialize};
use std::io::BufRead;
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
    /// `.zst` or `.gz`, are tables.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let name = Compression::without_ending(path).to_string_lossy().to_lowercase();
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

/// Turns the lines of a text into rows.
struct Parser<'a> {
    reading: &'a Reading,
    labels: Labels,
    table: Option<Table>,
    /// The label of rows that are not positive, once there is one.
    negative: Option<Label>,
}

impl<'a> Parser<'a> {
    const fn new(reading: &'a Reading, labels: Labels) -> Self {
        Self { reading, labels, table: None, negative: None }
    }

    /// The error of a line that is not in libsvm's format, and may be one of a table.
    fn maybe_table(&self, line: &str, what: String) -> String {
        match self.labels {
            _ if !line.contains([',', ';', '\t']) => what,
            Labels::Needed => format!("{what}; if this is a table, add --format csv"),
            Labels::Ignored => format!("{what}; the model was not trained on a table"),
        }
    }

    /// Parses a line. Returns whether its label is positive; `None` if the line is no row. `slot` is the
    /// feature with a name.
    fn parse(
        &mut self,
        text: &str,
        slot: impl FnMut(&str) -> u32,
        row: &mut Line,
    ) -> Result<Option<bool>, String> {
        row.entries.clear();
        let (reading, labels) = (self.reading, self.labels);
        let label = match reading.format {
            Format::Libsvm => {
                libsvm::parse(text, labels, row).map_err(|what| self.maybe_table(text, what))?
            }
            Format::Csv => {
                if self.table.is_none() {
                    let table = self.table.insert(Table::begin(text, &reading.columns, labels)?);
                    if table.is_named() {
                        return Ok(None);
                    }
                }
                self.table.as_mut().map(|table| table.parse(text, labels, slot, row)).transpose()?
            }
        };
        let Some(label) = label else { return Ok(None) };
        if matches!(label, Label::Zero | Label::Negative) && *self.negative.get_or_insert(label) != label {
            return Err("labels are 0 and -1; they must be 0 and 1, or -1 and 1".to_owned());
        }
        row.finish(reading.transform, reading.normalize)?;
        Ok(Some(label == Label::Positive))
    }
}

/// Calls `take` with each row of a text that errors call `file`. Labels are ignored: they are all negative.
/// Only a row is in memory.
///
/// # Errors
/// If the text cannot be read or is not in the format; the message names file and line. Errors of `take`.
pub fn unlabelled(
    reading: &Reading,
    file: &str,
    text: impl BufRead,
    mut take: impl FnMut(Row<'_>) -> Result<(), String>,
) -> Result<(), TextError> {
    let (mut parser, mut line) = (Parser::new(reading, Labels::Ignored), Line::default());
    let mut rows = Rows::default();
    lines_up_to(LINE_BYTES_MAX, file, text, |text| {
        if let Some(label) = parser.parse(text, |name| slot(name, reading.hash_bits), &mut line)? {
            rows.clear();
            rows.push(label, line.singles());
            take(rows.row(0))?;
        }
        Ok(())
    })
}

/// Reads files, and keeps what they have in common.
pub(super) struct Reader {
    reading: Reading,
    names: (Hashed, NameIndex),
    line: Line,
    /// The columns of the first table.
    header: Option<Header>,
}

impl Reader {
    pub(super) fn new(reading: Reading) -> Self {
        let names = (Hashed::new(reading.hash_bits), NameIndex::default());
        Self { reading, names, line: Line::default(), header: None }
    }

    /// The rows of a file.
    pub(super) fn read(&mut self, path: &Path) -> Result<Rows, DataError> {
        let file = path.display().to_string();
        let Self { reading, names: (hashed, index), line, header } = self;
        let (mut parser, mut rows) = (Parser::new(reading, Labels::Needed), Rows::default());
        lines_up_to(LINE_BYTES_MAX, &file, open(path)?, |text| {
            if let Some(label) = parser.parse(text, |name| hashed.intern(index, name), line)? {
                rows.push(label, line.singles());
            }
            Ok(())
        })?;
        if header.is_none() {
            *header = parser.table.map(|table| table.header());
        }
        if rows.is_empty() {
            return Err(DataError::Empty { file });
        }
        Ok(rows)
    }

    /// The number of features that occurred in the files, their names, and the columns of the first table.
    pub(super) fn end(self) -> (u32, Naming, Option<Header>) {
        match self.reading.format {
            Format::Libsvm => (self.line.features, Naming::Numbers, None),
            Format::Csv => (1 << self.reading.hash_bits, Naming::Hashed(self.names.0), self.header),
        }
    }
}
