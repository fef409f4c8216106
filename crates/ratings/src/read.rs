//! Files of either format, and their content. The first line determines the format.

use super::entry::{ENTRIES_MAX, Entry};
use super::error::DataError;
use super::ids::{Ids, Numbering};
use super::market::Market;
use super::table::Table;
use intendant_formats::{check_gaps, lines, open};
use std::path::Path;

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

/// The kind of file that a data set comes from; further files are of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A table, or no file at all.
    Table,
    /// A MatrixMarket file. If it is symmetric, it contains only one half of the matrix.
    Market { symmetric: bool },
}

/// The content of a file.
pub(super) struct Content {
    pub(super) rows: Ids,
    pub(super) columns: Ids,
    pub(super) entries: Vec<Entry>,
    pub(super) origin: Origin,
}

pub(super) fn content(path: &Path, rows: Numbering, columns: Numbering) -> Result<Content, DataError> {
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

/// The content of the first file of a matrix.
pub(super) fn first(path: &Path) -> Result<Content, DataError> {
    let content = content(path, Numbering::open(), Numbering::open())?;
    if let Origin::Market { .. } = content.origin {
        for (what, ids) in [("rows", &content.rows), ("columns", &content.columns)] {
            check_gaps(what, ids.len() as u64, content.entries.len() as u64)
                .map_err(|what| DataError::TooMany { file: path.display().to_string(), what })?;
        }
    }
    Ok(content)
}
