//! Tables: a label and features in columns, separated by tabs, commas or semicolons. Features are hashed.
//!
//! If a field is a number, it is the value of a feature with the name of its column. Any other field that is
//! not empty is the feature COLUMN=FIELD, with value 1.

use super::line::{Label, Labels, Line, number};
use csv_core::{ReadRecordResult, ReaderBuilder, Terminator};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The roles of the columns of a table. Columns are named as in the header, or by numbers from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The column of the label.
    pub label: String,
    /// Columns whose fields are names even if they are numbers.
    pub categorical: Vec<String>,
    /// Columns of which all fields must be numbers.
    pub numeric: Vec<String>,
    /// The columns of the table that a model was trained on. Other tables must have the same ones, except
    /// that of the label if labels are ignored and columns have names.
    pub trained: Option<Header>,
}

/// The columns of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Whether the first line of the table has their names. Otherwise, they are called by their numbers.
    pub named: bool,
    /// What they are called, in their order.
    pub columns: Vec<String>,
}

impl Header {
    /// The name of a column that a user may have called by its number.
    #[must_use]
    pub fn name<'a>(&'a self, wanted: &'a str) -> &'a str {
        let is_name = !self.named || self.columns.iter().any(|name| name == wanted);
        let number = wanted.parse::<usize>().ok().filter(|_| !is_name);
        let named = number.and_then(|number| self.columns.get(number.checked_sub(1)?));
        named.map_or(wanted, String::as_str)
    }
}

impl Default for Columns {
    fn default() -> Self {
        Self { label: "1".to_owned(), categorical: Vec::new(), numeric: Vec::new(), trained: None }
    }
}

/// How the fields of a column are interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Label,
    Categorical,
    Numeric,
    /// Each field decides whether it is a number or a name.
    Open,
}

const SEPARATORS: [u8; 3] = [b'\t', b',', b';'];

/// A table that is being read.
#[derive(Debug)]
pub(super) struct Table {
    separator: u8,
    is_named: bool,
    columns: Vec<(String, Kind)>,
    fields: Fields,
    name: String,
}

impl Table {
    /// Begins a table with its first line.
    pub(super) fn begin(line: &str, columns: &Columns, labels: Labels) -> Result<Self, String> {
        let mut fields = Fields::default();
        let mut separator = None;
        for candidate in SEPARATORS {
            if fields.split(line, candidate)? >= 2 {
                separator = Some(candidate);
                break;
            }
        }
        let named = columns.trained.as_ref().map(|trained| trained.named);
        // Without the label, a single feature may be left.
        let is_single = named == Some(true) && labels == Labels::Ignored;
        let separator = separator.or(is_single.then_some(SEPARATORS[0]));
        let separator =
            separator.ok_or("expected a label and features, separated by tabs, commas or semicolons")?;
        let first: Vec<String> = fields.iter().map(|field| field.trim().to_owned()).collect();
        let number =
            |wanted: &str| wanted.parse().ok().filter(|n| (1..=first.len()).contains(n)).map(|n| n - 1);
        let is_header = named.unwrap_or_else(|| {
            number(&columns.label).is_none_or(|label: usize| first[label].parse::<f64>().is_err())
        });
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, name) in first.iter().enumerate().filter(|_| is_header) {
            places.entry(name).or_insert(at);
        }
        let place = |wanted: &str| {
            places.get(wanted).copied().or_else(|| number(wanted).filter(|_| named != Some(true)))
        };
        let needs_label = !is_header || columns.trained.is_none() || labels == Labels::Needed;
        let trained: &[String] = columns.trained.as_ref().map_or(&[], |trained| &trained.columns);
        if !is_header && !trained.is_empty() && trained.len() != first.len() {
            return Err(format!(
                "found {} columns, expected {} as in the table that the model was trained on, which has no header",
                first.len(),
                trained.len()
            ));
        }
        let roles = [&columns.categorical[..], &columns.numeric, trained].into_iter().flatten();
        let mut all =
            roles.filter(|name| **name != columns.label).chain(needs_label.then_some(&columns.label));
        if let Some(wanted) = all.find(|wanted| place(wanted).is_none()) {
            return Err(if is_header {
                format!("there is no column '{wanted}'; there are {}", first.join(", "))
            } else {
                format!(
                    "there is no column '{wanted}'; the file has no header, so its columns are numbers from 1 to {}",
                    first.len()
                )
            });
        }
        let places_of =
            |wanted: &[String]| -> BTreeSet<usize> { wanted.iter().filter_map(|name| place(name)).collect() };
        let (categorical, numeric) = (places_of(&columns.categorical), places_of(&columns.numeric));
        let mut described = Vec::with_capacity(first.len());
        for (at, field) in first.iter().enumerate() {
            let name = if is_header { field.clone() } else { (at + 1).to_string() };
            let kind = match (categorical.contains(&at), numeric.contains(&at)) {
                _ if place(&columns.label) == Some(at) => Kind::Label,
                (true, true) => {
                    return Err(format!("column '{name}' cannot be both categorical and numeric"));
                }
                (true, false) => Kind::Categorical,
                (false, true) => Kind::Numeric,
                (false, false) => Kind::Open,
            };
            if kind != Kind::Label && name.is_empty() {
                return Err(format!("column {} has no name", at + 1));
            }
            described.push((name, kind));
        }
        let mut before = BTreeSet::new();
        if let Some((twice, _)) = described.iter().find(|(name, _)| !before.insert(name)) {
            return Err(format!("two columns are called '{twice}'"));
        }
        Ok(Self { separator, is_named: is_header, columns: described, fields, name: String::new() })
    }

    /// Whether the first line is a header, and no row.
    pub(super) const fn is_named(&self) -> bool {
        self.is_named
    }

    /// The columns, for a model.
    pub(super) fn header(&self) -> Header {
        let columns = self.columns.iter().map(|(name, _)| name.clone()).collect();
        Header { named: self.is_named, columns }
    }

    /// Parses a line. `slot` is the feature with a name.
    pub(super) fn parse(
        &mut self,
        line: &str,
        labels: Labels,
        mut slot: impl FnMut(&str) -> u32,
        row: &mut Line,
    ) -> Result<Label, String> {
        let found = self.fields.split(line, self.separator)?;
        if found != self.columns.len() {
            let found = if line.is_empty() {
                "the line is empty".to_owned()
            } else {
                format!("found {found} columns")
            };
            return Err(format!("{found}, expected {} as on the first line", self.columns.len()));
        }
        let mut label = (labels == Labels::Ignored).then_some(Label::Unknown);
        for ((column, kind), field) in self.columns.iter().zip(self.fields.iter()) {
            let field = field.trim();
            if *kind == Kind::Label {
                if labels == Labels::Needed {
                    label = Some(Label::parse(field)?);
                }
                continue;
            }
            if field.is_empty() {
                continue;
            }
            let value = match kind {
                Kind::Label | Kind::Categorical => None,
                Kind::Numeric => Some(
                    number(field).map_err(|problem| format!("the value of column '{column}' {problem}"))?,
                ),
                // A field that is not a number is a name, but a number out of range is an error.
                Kind::Open if field.parse::<f64>().is_ok() => Some(
                    number(field).map_err(|problem| format!("the value of column '{column}' {problem}"))?,
                ),
                Kind::Open => None,
            };
            match value {
                Some(value) => row.add(slot(column), value),
                None => {
                    self.name.clear();
                    self.name.push_str(column);
                    self.name.push('=');
                    self.name.push_str(field);
                    row.add(slot(&self.name), 1.0);
                }
            }
        }
        label.ok_or_else(|| "the label is missing".to_owned())
    }
}

/// The fields of a line, without quotes.
#[derive(Debug, Default)]
struct Fields {
    text: String,
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Fields {
    /// Splits a line; returns the number of its fields.
    fn split(&mut self, line: &str, separator: u8) -> Result<usize, String> {
        self.text.clear();
        self.ends.clear();
        if !line.contains('"') {
            for field in line.split(char::from(separator)) {
                self.text.push_str(field);
                self.ends.push(self.text.len());
            }
            return Ok(self.ends.len());
        }
        if !line.matches('"').count().is_multiple_of(2) {
            return Err("a quoted field does not end on this line".to_owned());
        }
        // The line has been cut out already: a carriage return within it is an ordinary character.
        let terminator = Terminator::Any(b'\n');
        let mut reader = ReaderBuilder::new().delimiter(separator).terminator(terminator).build();
        // Fields together are not longer than the line, and there is one more field than separators, at most.
        self.bytes.resize(line.len(), 0);
        self.ends.resize(line.len() + 1, 0);
        let (_, _, text, fields) = reader.read_record(line.as_bytes(), &mut self.bytes, &mut self.ends);
        let (result, _, last_text, last_fields) =
            reader.read_record(&[], &mut self.bytes[text..], &mut self.ends[fields..]);
        debug_assert!(matches!(result, ReadRecordResult::Record | ReadRecordResult::End));
        self.ends.truncate(fields + last_fields);
        let text = std::str::from_utf8(&self.bytes[..text + last_text]);
        self.text.push_str(text.map_err(|_| "the line is not UTF-8 text".to_owned())?);
        Ok(self.ends.len())
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(self.ends.iter().copied()).map(|(start, end)| &self.text[start..end])
    }
}
