//! Files of either format, as data sets. The first line determines the format.

use super::ids::Numbering;
use super::market::Market;
use super::table::Table;
use super::{Dataset, ENTRIES_MAX, Entry, Ids, Origin};
use intendant_formats::{TextError, check_gaps, lines, open};
use std::path::Path;

/// Why data cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file cannot be read, or a line is not in the format.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A file without entries.
    #[error("{file} holds no entries; expected lines of row, column and value, or a MatrixMarket file")]
    Empty {
        /// The file.
        file: String,
    },
    /// A MatrixMarket file that announces other entries than it has.
    #[error("{file} announces {announced} entries but holds {found}; copy it again")]
    Incomplete {
        /// The file.
        file: String,
        /// Entries according to the second line.
        announced: u64,
        /// Entries that are there.
        found: u64,
    },
    /// Too many rows, columns or entries for 32 bits.
    #[error("{file}: {what}")]
    TooMany {
        /// The file.
        file: String,
        /// What there is too much of, and the limit.
        what: String,
    },
    /// A file of held-out entries, of another format than the training file.
    #[error("{file} is {}a MatrixMarket file, other than the training data; its numbers would mean something else", if *market { "" } else { "not " })]
    OtherFormat {
        /// The file.
        file: String,
        /// Whether it is a MatrixMarket file.
        market: bool,
    },
    /// A fraction that holds out nothing or everything.
    #[error(
        "holding out a fraction of {fraction} of {entries} entries leaves nothing to train on or to evaluate"
    )]
    HoldOut {
        /// The fraction.
        fraction: f64,
        /// Training entries.
        entries: usize,
    },
}

/// A file that is being read.
enum Format {
    Market(Market),
    Table(Box<Table>),
}

impl Format {
    /// The format of a file that begins with `line`.
    fn of(line: &str, rows: Numbering, columns: Numbering) -> Result<Self, String> {
        match Market::header(line)? {
            Some(market) => Ok(Self::Market(market)),
            None => Ok(Self::Table(Box::new(Table::new(line, rows, columns)?))),
        }
    }
}

/// The content of a file.
struct Content {
    rows: Ids,
    columns: Ids,
    entries: Vec<Entry>,
    origin: Origin,
}

fn content(path: &Path, rows: Numbering, columns: Numbering) -> Result<Content, DataError> {
    let file = path.display().to_string();
    let mut numbering = Some((rows, columns));
    let mut format = None;
    let mut entries = Vec::new();
    lines(&file, open(path)?, |line| {
        if let Some((rows, columns)) = numbering.take() {
            format = Some(Format::of(line, rows, columns)?);
        }
        match &mut format {
            Some(Format::Market(market)) => market.line(line, &mut entries),
            Some(Format::Table(table)) => table.line(line, &mut entries),
            None => Ok(()),
        }
    })?;
    if entries.len() > ENTRIES_MAX {
        let what = format!("{} entries; at most {ENTRIES_MAX} are possible", entries.len());
        return Err(DataError::TooMany { file, what });
    }
    let content = match format {
        Some(Format::Market(market)) => {
            let (announced, found) = market.counts();
            if announced != found {
                return Err(DataError::Incomplete { file, announced, found });
            }
            let (rows, columns) = market.ids();
            let origin = Origin::Market { symmetric: market.symmetric() };
            Content { rows, columns, entries, origin }
        }
        Some(Format::Table(table)) => {
            if let Some(header) = table.header() {
                tracing::info!("{file}: the first line is taken for names of columns: {header}");
            }
            let (rows, columns) =
                table.end(&mut entries).map_err(|what| DataError::TooMany { file: file.clone(), what })?;
            Content { rows, columns, entries, origin: Origin::Table }
        }
        None => return Err(DataError::Empty { file }),
    };
    if content.entries.is_empty() {
        return Err(DataError::Empty { file });
    }
    Ok(content)
}

pub(super) fn first(path: &Path) -> Result<Dataset, DataError> {
    let Content { rows, columns, entries, origin } = content(path, Numbering::open(), Numbering::open())?;
    if let Origin::Market { .. } = origin {
        for (what, ids) in [("rows", &rows), ("columns", &columns)] {
            check_gaps(what, ids.len() as u64, entries.len() as u64)
                .map_err(|what| DataError::TooMany { file: path.display().to_string(), what })?;
        }
    }
    Ok(Dataset::from(rows, columns, entries, Vec::new(), origin))
}

/// The entries of a further file, whose new rows and columns are added to the data.
pub(super) fn further(data: &mut Dataset, path: &Path) -> Result<Vec<Entry>, DataError> {
    let entries = data.train.len();
    let rows = Numbering::further(data.rows.clone(), entries);
    let columns = Numbering::further(data.columns.clone(), entries);
    let read = content(path, rows, columns)?;
    let file = || path.display().to_string();
    match (data.origin, read.origin) {
        (Origin::Table, Origin::Table) => (data.rows, data.columns) = (read.rows, read.columns),
        (Origin::Market { .. }, Origin::Market { .. }) => {
            for (what, here, there) in [
                ("rows", read.rows.len(), data.rows.len()),
                ("columns", read.columns.len(), data.columns.len()),
            ] {
                if here > there {
                    let what = format!("{here} {what}, but the training data has {there}");
                    return Err(DataError::TooMany { file: file(), what });
                }
            }
        }
        (_, found) => return Err(DataError::OtherFormat { file: file(), market: found != Origin::Table }),
    }
    Ok(read.entries)
}
