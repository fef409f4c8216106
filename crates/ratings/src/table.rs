//! Tables: a row, a column and a value on each line; further columns (a time, say) are ignored.
//!
//! The first line determines the separator of columns: tabs, `::`, commas, semicolons or blanks. Fields
//! between commas or semicolons may be quoted, within one line. If the value on the first line is not a
//! number, that line has the columns' names.

use super::entry::Entry;
use super::ids::{Ids, Numbering};
use csv_core::ReadRecordResult;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    Text(&'static str),
    /// A character that can be part of a quoted field.
    Quotable(char),
    Blanks,
}

/// In order of preference: the first with which a line has three columns.
const SEPARATORS: [Separator; 5] = [
    Separator::Text("\t"),
    Separator::Text("::"),
    Separator::Quotable(','),
    Separator::Quotable(';'),
    Separator::Blanks,
];

impl Separator {
    /// The first three fields of a line, and how many there are.
    fn split<'a>(self, line: &'a str, quoted: &'a mut Quoted) -> Result<([&'a str; 3], usize), String> {
        match self {
            Self::Text(separator) => Ok(first(line.split(separator))),
            Self::Blanks => Ok(first(line.split_ascii_whitespace())),
            Self::Quotable(separator) if line.contains('"') => quoted.split(line, separator).map(first),
            Self::Quotable(separator) => Ok(first(line.split(separator))),
        }
    }
}

fn first<'a>(fields: impl Iterator<Item = &'a str>) -> ([&'a str; 3], usize) {
    let (mut three, mut count) = ([""; 3], 0);
    for field in fields {
        if let Some(place) = three.get_mut(count) {
            *place = field.trim();
        }
        count += 1;
    }
    (three, count)
}

/// Splits lines with quoted fields.
#[derive(Debug, Default)]
struct Quoted {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Quoted {
    fn split(&mut self, line: &str, separator: char) -> Result<impl Iterator<Item = &str>, String> {
        if !line.matches('"').count().is_multiple_of(2) {
            return Err("a quoted field does not end on this line".to_owned());
        }
        // The separators are ASCII.
        let mut reader = csv_core::ReaderBuilder::new().delimiter(separator as u8).build();
        // Fields together are not longer than the line, and there is one more field than separators, at most.
        self.text.resize(line.len(), 0);
        self.ends.resize(line.len() + 1, 0);
        let (_, _, text, fields) = reader.read_record(line.as_bytes(), &mut self.text, &mut self.ends);
        let (result, _, last_text, last_fields) =
            reader.read_record(&[], &mut self.text[text..], &mut self.ends[fields..]);
        debug_assert!(matches!(result, ReadRecordResult::Record | ReadRecordResult::End));
        let (text, ends) = (&self.text[..text + last_text], &self.ends[..fields + last_fields]);
        let text = std::str::from_utf8(text).map_err(|_| "the line is not UTF-8 text".to_owned())?;
        let starts = std::iter::once(0).chain(ends.iter().copied());
        Ok(starts.zip(ends.iter().copied()).map(|(start, end)| &text[start..end]))
    }
}

/// A file that is being read.
#[derive(Debug)]
pub(super) struct Table {
    separator: Separator,
    fields: usize,
    first: bool,
    header: Option<String>,
    rows: Numbering,
    columns: Numbering,
    quoted: Quoted,
}

impl Table {
    /// Starts a file whose first line is `line`.
    pub(super) fn new(line: &str, rows: Numbering, columns: Numbering) -> Result<Self, String> {
        let mut quoted = Quoted::default();
        for separator in SEPARATORS {
            let fields = separator.split(line, &mut quoted)?.1;
            if fields >= 3 {
                return Ok(Self { separator, fields, first: true, header: None, rows, columns, quoted });
            }
        }
        Err("expected a row, a column and a value, separated by tabs, '::', commas, semicolons or blanks"
            .to_owned())
    }

    /// Takes a line.
    pub(super) fn line(&mut self, line: &str, entries: &mut Vec<Entry>) -> Result<(), String> {
        let ([row, column, text], fields) = self.separator.split(line, &mut self.quoted)?;
        if fields != self.fields {
            let found = if line.is_empty() {
                "the line is empty".to_owned()
            } else {
                format!("found {fields} columns")
            };
            return Err(format!("{found}, expected {} as on the first line", self.fields));
        }
        let first = std::mem::take(&mut self.first);
        let value = match value(text) {
            Ok(value) => value,
            Err(_) if first && text.parse::<f64>().is_err() => {
                self.header = Some(line.to_owned());
                return Ok(());
            }
            Err(problem) => return Err(problem),
        };
        for (what, text) in [("row", row), ("column", column)] {
            if text.is_empty() {
                return Err(format!("the {what} is empty"));
            }
        }
        let row = self.rows.number(row, &mut entries.iter_mut().map(|e| &mut e.row))?;
        let column = self.columns.number(column, &mut entries.iter_mut().map(|e| &mut e.column))?;
        entries.push(Entry { row, column, value });
        Ok(())
    }

    /// The first line, if it is not an entry.
    pub(super) fn header(&self) -> Option<&str> {
        self.header.as_deref()
    }

    /// The identifiers, after the last line.
    pub(super) fn end(self, entries: &mut [Entry]) -> Result<(Ids, Ids), String> {
        let count = entries.len();
        let rows = self.rows.end(count, &mut entries.iter_mut().map(|e| &mut e.row))?;
        let columns = self.columns.end(count, &mut entries.iter_mut().map(|e| &mut e.column))?;
        Ok((rows, columns))
    }
}

/// Parses a value.
pub(super) fn value(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(value) => Err(format!("the value is {value}; it must be finite")),
        Err(_) => Err(format!("the value is '{text}', which is no number")),
    }
}
