//! MatrixMarket's coordinate format: a header, comments, the size, then one entry a line, numbered from 1.

use super::entry::Entry;
use super::ids::Ids;

/// The content of an entry besides row and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Number,
    /// Nothing: the value is 1.
    Pattern,
}

#[derive(Clone, Copy, Debug)]
struct Size {
    rows: u32,
    columns: u32,
    announced: u64,
}

/// A file that is being read.
#[derive(Debug)]
pub(super) struct Market {
    field: Field,
    symmetric: bool,
    header: bool,
    size: Option<Size>,
    found: u64,
}

/// Maximum number of rows and columns together. More would need hundreds of gigabytes for the smallest
/// values.
const ROWS_AND_COLUMNS_MAX: u64 = 1 << 31;

const MAGIC: &str = "%%MatrixMarket";

impl Market {
    /// Starts a file whose first line is `line`; `None` if it is of another format.
    pub(super) fn header(line: &str) -> Result<Option<Self>, String> {
        let mut words = line.split_ascii_whitespace();
        if !words.next().is_some_and(|word| word.eq_ignore_ascii_case(MAGIC)) {
            return Ok(None);
        }
        let words: Vec<String> = words.map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let [object, format, field, symmetry] = words[..] else {
            return Err(format!("expected '{MAGIC} matrix coordinate FIELD SYMMETRY'"));
        };
        if (object, format) != ("matrix", "coordinate") {
            return Err(format!("'{object} {format}' cannot be factorised here; use 'matrix coordinate'"));
        }
        let field = match field {
            "real" | "double" | "integer" => Field::Number,
            "pattern" => Field::Pattern,
            other => return Err(format!("values are {other}; they must be real, integer or pattern")),
        };
        let symmetric = match symmetry {
            "general" => false,
            "symmetric" => true,
            other => return Err(format!("the matrix is {other}; it must be general or symmetric")),
        };
        Ok(Some(Self { field, symmetric, header: true, size: None, found: 0 }))
    }

    /// Takes a line. Both cells of an entry of a symmetric matrix are appended.
    pub(super) fn line(&mut self, line: &str, entries: &mut Vec<Entry>) -> Result<(), String> {
        if std::mem::take(&mut self.header) || line.starts_with('%') || line.trim().is_empty() {
            return Ok(());
        }
        let mut words = line.split_ascii_whitespace();
        let mut word = |what: &str| words.next().ok_or_else(|| format!("the {what} is missing"));
        match self.size {
            None => {
                let mut number = |what: &str| {
                    let word = word(what)?;
                    word.parse::<u64>().map_err(|_| format!("the {what} is '{word}', which is no number"))
                };
                let (rows, columns, announced) =
                    (number("number of rows")?, number("number of columns")?, number("number of entries")?);
                let size = |what: &str, count: u64| {
                    let fits = u32::try_from(count).ok().filter(|count| (1..u32::MAX).contains(count));
                    fits.ok_or_else(|| format!("{count} {what}; allowed are 1 to {}", u32::MAX - 1))
                };
                let (rows, columns) = (size("rows", rows)?, size("columns", columns)?);
                // Every row and column has a parameter value of its own, even without entries.
                if u64::from(rows) + u64::from(columns) > ROWS_AND_COLUMNS_MAX {
                    return Err(format!(
                        "{rows} rows and {columns} columns; together {ROWS_AND_COLUMNS_MAX} are allowed: leave out those \
                         without entries"
                    ));
                }
                if self.symmetric && rows != columns {
                    return Err(format!("a symmetric matrix with {rows} rows and {columns} columns"));
                }
                self.size = Some(Size { rows, columns, announced });
            }
            Some(size) => {
                let mut place = |what: &str, count: u32| {
                    let word = word(what)?;
                    let number = word.parse::<u32>().ok().filter(|number| (1..=count).contains(number));
                    // Numbers start from 1 here, and from 0 everywhere else.
                    number
                        .map(|number| number - 1)
                        .ok_or_else(|| format!("the {what} is '{word}'; expected a number from 1 to {count}"))
                };
                let (row, column) = (place("row", size.rows)?, place("column", size.columns)?);
                let value = match self.field {
                    Field::Pattern => 1.0,
                    Field::Number => super::table::value(word("value")?)?,
                };
                entries.push(Entry { row, column, value });
                if self.symmetric && row != column {
                    entries.push(Entry { row: column, column: row, value });
                }
                self.found += 1;
            }
        }
        match words.next() {
            Some(word) => Err(format!("'{word}' is one word too many")),
            None => Ok(()),
        }
    }

    /// Entries that the file announces, and those that it holds.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.size.map_or(0, |size| size.announced), self.found)
    }

    /// The numbers of rows and columns.
    pub(super) fn ids(&self) -> (Ids, Ids) {
        let (rows, columns) = self.size.map_or((0, 0), |size| (size.rows, size.columns));
        (Ids::Numbers { first: 1, count: rows }, Ids::Numbers { first: 1, count: columns })
    }

    pub(super) fn symmetric(&self) -> bool {
        self.symmetric
    }
}
