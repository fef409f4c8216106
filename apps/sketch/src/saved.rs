//! Exported sketches as files: the files that the export writes; `--sketch` and `query` read them.
//!
//! `sketch.json` has the sizes, the hash functions, the definition of items, and N. `counters.npy` has the
//! cells: a matrix with a block of cells per row, in the order of the sketch's rows. Reshaped to depth ×
//! width, it is the sketch. `top.tsv` has the heavy hitters, if the user wanted them.

use crate::config::Sizes;
use crate::data::{Item, Items};
use crate::estimate::Estimator;
use crate::evaluate::Estimated;
use crate::hash::{Hashes, MultiplyShift, Row, Written};
use crate::shape::{DEPTH_MAX, Kind, Shape};
use intendant_core::random::stream;
use intendant_core::{Element, ElementType};
use intendant_formats::npy_rows;
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// The version of the files.
const SCHEMA: &str = "intendant.sketch/1";

/// An exported sketch, its cells included.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// The content of its `sketch.json`.
    pub about: About,
    /// All cells, row by row.
    pub cells: Vec<f64>,
    /// N; with count-sketch, then the sums of the signed counts of each row.
    pub inserted: Vec<f64>,
    /// Names of the heavy hitters.
    pub top: Vec<Vec<u8>>,
}

/// The description of an exported sketch.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// Its size.
    pub shape: Shape,
    /// Its functions.
    pub hashes: Hashes,
    /// What an item is.
    pub items: Items,
}

/// Why an exported sketch cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SavedError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}; name a folder that --export of this program wrote", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// A file is not as an export writes it.
    #[error("{}: {reason}", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// The text of `sketch.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: String,
    kind: Kind,
    depth: usize,
    width: u64,
    block: usize,
    /// The bounds that follow from the sizes, for readers.
    epsilon: f64,
    delta: f64,
    float: String,
    items: String,
    ngrams: u32,
    /// 16 hexadecimal digits.
    text_seed: String,
    rows: Vec<FileRow>,
    inserted: u64,
    /// With count-sketch, the sums of the signed counts of each row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    signed: Vec<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRow {
    index: Written,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sign: Option<Written>,
}

/// The files of a folder.
#[must_use]
pub fn about_path(folder: &Path) -> PathBuf {
    folder.join("sketch.json")
}

/// The cells.
#[must_use]
pub fn cells_path(folder: &Path) -> PathBuf {
    folder.join("counters.npy")
}

/// The heavy hitters.
#[must_use]
pub fn top_path(folder: &Path) -> PathBuf {
    folder.join("top.tsv")
}

/// The text of `sketch.json`.
#[must_use]
pub fn about_text(about: &About, float: ElementType, inserted: &[f64]) -> String {
    let About { shape, hashes, items } = about;
    let Shape { kind, depth, width, block } = *shape;
    let (items, ngrams) = match *items {
        Items::Words { ngrams } => ("words", ngrams),
        Items::Lines => ("lines", 1),
        Items::Integers => ("integers", 1),
    };
    let row =
        |row: &Row| FileRow { index: Written::of(&row.index), sign: row.sign.as_ref().map(Written::of) };
    let file = File {
        schema: SCHEMA.to_owned(),
        kind,
        depth,
        width,
        block,
        epsilon: kind.epsilon(width),
        delta: kind.delta(depth),
        float: float.to_string(),
        items: items.to_owned(),
        ngrams,
        text_seed: format!("{:016x}", hashes.text_seed),
        rows: hashes.rows.iter().map(row).collect(),
        inserted: inserted[0] as u64,
        signed: inserted[1..].iter().map(|sum| *sum as i64).collect(),
    };
    // It consists of strings and numbers only.
    serde_json::to_string_pretty(&file).unwrap_or_default() + "\n"
}

impl Saved {
    /// Reads an exported sketch.
    ///
    /// # Errors
    /// If a file cannot be read, or is not as an export writes it.
    pub fn read(folder: &Path) -> Result<Self, SavedError> {
        let path = about_path(folder);
        let text = std::fs::read_to_string(&path)
            .map_err(|source| SavedError::Read { file: path.clone(), source })?;
        let wrong = |reason: &str| SavedError::Malformed { file: path.clone(), reason: reason.to_owned() };
        let file: File = serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
        let (about, float) = file.checked().map_err(|reason| wrong(&reason))?;
        let inserted = std::iter::once(file.inserted as f64).chain(file.signed.iter().map(|sum| *sum as f64));
        let inserted: Vec<f64> = inserted.collect();
        if inserted.len() != about.shape.inserted_len() {
            return Err(wrong("'signed' has a number for each row of a count-sketch, and none for others"));
        }
        let cells = match float {
            ElementType::F32 => read_cells::<f32>(folder, &about.shape),
            ElementType::F64 => read_cells::<f64>(folder, &about.shape),
        }?;
        let top = match std::fs::read(top_path(folder)) {
            Ok(text) => top_of(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(SavedError::Read { file: top_path(folder), source }),
        };
        let saved = Self { about, cells, inserted, top };
        saved.check().map_err(|reason| SavedError::Malformed { file: cells_path(folder), reason })?;
        Ok(saved)
    }

    /// Checks that rows add up to the sums of the description: a file may belong to another description.
    fn check(&self) -> Result<(), String> {
        let shape = &self.about.shape;
        for (row, cells) in self.cells.chunks_exact(shape.width as usize).enumerate() {
            let (sum, expected) = (cells.iter().sum::<f64>(), shape.expected_sum(&self.inserted, row));
            if sum != expected {
                return Err(format!("row {row} adds up to {sum}, and sketch.json says {expected}"));
            }
        }
        Ok(())
    }

    /// Calls `take` with each item of a text, divided into items as the stream was, and its estimate.
    ///
    /// # Errors
    /// If the text is malformed. Earlier items were passed to `take`.
    pub fn ask(&self, text: &[u8], mut take: impl FnMut(Estimated)) -> Result<(), String> {
        let About { shape, hashes, items } = &self.about;
        let estimator = Estimator { shape, hashes };
        let estimated = |item: Item<'_>| {
            let mut name = Vec::new();
            item.text.write(&mut name);
            take(Estimated { name, estimate: estimator.estimate(item.x, |cell| self.cells[cell]) });
        };
        items.of_text(text, |text| hashes.of_text(text), estimated)
    }

    pub(crate) fn digest(&self) -> u64 {
        let mut hash = Xxh3::new();
        self.cells.iter().chain(&self.inserted).for_each(|value| hash.update(&value.to_le_bytes()));
        stream(hash.digest(), &[self.about.hashes.text_seed])
    }
}

impl File {
    fn checked(&self) -> Result<(About, ElementType), String> {
        if self.schema != SCHEMA {
            return Err(format!("the schema is '{}'; this version reads {SCHEMA}", self.schema));
        }
        let Self { kind, depth, width, block, .. } = *self;
        let sizes = Sizes { kind, epsilon: None, delta: None, width: Some(width), depth: Some(depth), block };
        let shape = sizes.shape().map_err(|error| error.to_string())?;
        if shape.width != width {
            return Err(format!("the width is {width}, which is no multiple of the block of {block} cells"));
        }
        if depth > DEPTH_MAX || self.rows.len() != depth {
            return Err(format!("there are functions of {} rows, and the depth is {depth}", self.rows.len()));
        }
        let items = match (self.items.as_str(), self.ngrams) {
            ("words", ngrams @ 1..) => Items::Words { ngrams },
            ("lines", 1) => Items::Lines,
            ("integers", 1) => Items::Integers,
            (items, ngrams) => return Err(format!("items are '{items}' with {ngrams} words")),
        };
        let function = |written: &Written| -> Result<MultiplyShift, String> {
            written.read().ok_or_else(|| "a number of a function is not 32 hexadecimal digits".to_owned())
        };
        let signed = kind == Kind::CountSketch;
        let row = |row: &FileRow| -> Result<Row, String> {
            if row.sign.is_some() != signed {
                return Err("rows of count-sketches have signs, and others have none".to_owned());
            }
            let sign = row.sign.as_ref().map(function).transpose()?;
            Ok(Row { index: function(&row.index)?, sign })
        };
        let rows = self.rows.iter().map(row).collect::<Result<_, String>>()?;
        let text_seed = u64::from_str_radix(&self.text_seed, 16);
        let text_seed = text_seed.map_err(|_| "text_seed is not 16 hexadecimal digits".to_owned())?;
        let float = self.float.parse().map_err(|error| format!("float: {error}"))?;
        Ok((About { shape, hashes: Hashes { text_seed, rows }, items }, float))
    }
}

fn read_cells<E: Element>(folder: &Path, shape: &Shape) -> Result<Vec<f64>, SavedError> {
    let file = cells_path(folder);
    let all = shape.width as usize * shape.depth;
    // A file may be sparse, and larger than its disk.
    let needed = (all as u64).saturating_mul(size_of::<f64>() as u64);
    if let Some((free, limit)) = intendant_segment::memory::free(Path::new("/"))
        && needed > free
    {
        let reason = format!("{all} cells take {needed} bytes, and {limit} has {free}");
        return Err(SavedError::Malformed { file, reason });
    }
    let read = || -> io::Result<Vec<f64>> {
        let mut source = npy_rows::<E>(&file, shape.blocks() as usize, shape.block)?;
        let (mut bytes, mut cells) = (vec![0; shape.block * size_of::<E>()], Vec::with_capacity(all));
        for _ in 0..shape.blocks() {
            source.read_exact(&mut bytes)?;
            cells.extend(bytes.chunks_exact(size_of::<E>()).map(|bytes| E::read_le(bytes).to_f64()));
        }
        Ok(cells)
    };
    read().map_err(|source| SavedError::Read { file: file.clone(), source })
}

/// The names in `top.tsv`: the text after the tab of each line, except the first line, which is a heading.
fn top_of(text: &[u8]) -> Vec<Vec<u8>> {
    let lines = text.split(|byte| *byte == b'\n').skip(1);
    let name = |line: &[u8]| Some(line[line.iter().position(|byte| *byte == b'\t')? + 1..].to_vec());
    lines.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(kind: Kind, items: Items) -> About {
        let shape = Shape { kind, depth: 2, width: 4, block: 2 };
        About { shape, hashes: Hashes::new(3, &shape), items }
    }

    /// Writes a folder as an export does.
    fn write(folder: &Path, about: &About, inserted: &[f64], cells: &[f32]) {
        std::fs::write(about_path(folder), about_text(about, ElementType::F32, inserted)).unwrap();
        let mut matrix = intendant_formats::Matrix::create::<f32>(folder, "counters", 4, 2).unwrap();
        (0..).zip(cells.chunks(2)).for_each(|(row, cells)| matrix.row(row, cells).unwrap());
        matrix.finish().unwrap();
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let min = about(Kind::CountMin, Items::Words { ngrams: 2 });
        write(folder.path(), &min, &[6.0], &[1.0, 2.0, 0.0, 3.0, 6.0, 0.0, 0.0, 0.0]);
        std::fs::write(top_path(folder.path()), "estimate\titem\n3\ta b\n2\tc\td\n").unwrap();
        let saved = Saved::read(folder.path()).unwrap();
        assert_eq!((&saved.about, saved.inserted), (&min, vec![6.0]));
        assert_eq!(saved.cells, [1.0, 2.0, 0.0, 3.0, 6.0, 0.0, 0.0, 0.0]);
        assert_eq!(saved.top, [b"a b".to_vec(), b"c\td".to_vec()]);
        for items in [Items::Lines, Items::Integers] {
            let signed = about(Kind::CountSketch, items);
            write(folder.path(), &signed, &[6.0, -2.0, 4.0], &[1.0, -2.0, 0.0, -1.0, 6.0, 0.0, -2.0, 0.0]);
            let saved = Saved::read(folder.path()).unwrap();
            assert_eq!((saved.about, saved.inserted), (signed, vec![6.0, -2.0, 4.0]));
        }
    }

    #[test]
    fn what_no_export_has_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let error = || Saved::read(path).unwrap_err().to_string().replace(path.to_str().unwrap(), "DIR");
        assert!(error().starts_with("cannot read DIR/sketch.json: "), "{}", error());
        let min = about(Kind::CountMin, Items::Lines);
        let cells = [1.0, 2.0, 0.0, 3.0, 6.0, 0.0, 0.0, 0.0];
        for inserted in [7.0, 5.0] {
            write(path, &min, &[inserted], &cells);
            let expected = format!("DIR/counters.npy: row 0 adds up to 6, and sketch.json says {inserted}");
            assert_eq!(error(), expected);
        }
        write(path, &min, &[6.0], &cells);
        let text = std::fs::read_to_string(about_path(path)).unwrap();
        let with = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            std::fs::write(about_path(path), text.replacen(from, to, 1)).unwrap();
            error()
        };
        assert_eq!(
            with("intendant.sketch/1", "intendant.sketch/2"),
            "DIR/sketch.json: the schema is 'intendant.sketch/2'; this version reads intendant.sketch/1"
        );
        let large = text.replacen("\"width\": 4", "\"width\": 68719476736", 1);
        std::fs::write(about_path(path), large.replacen("\"block\": 2", "\"block\": 1024", 1)).unwrap();
        let expected = "DIR/counters.npy: 137438953472 cells take 1099511627776 bytes, and ";
        assert!(error().starts_with(expected), "{}", error());
        assert_eq!(
            with("\"width\": 4", "\"width\": 3"),
            "DIR/sketch.json: the width is 3, which is no multiple of the block of 2 cells"
        );
        assert_eq!(
            with("\"depth\": 2", "\"depth\": 3"),
            "DIR/sketch.json: there are functions of 2 rows, and the depth is 3"
        );
        assert_eq!(with("\"lines\"", "\"letters\""), "DIR/sketch.json: items are 'letters' with 1 words");
        assert_eq!(
            with("count-min", "count-sketch"),
            "DIR/sketch.json: rows of count-sketches have signs, and others have none"
        );
        assert_eq!(
            with("\"a\": \"", "\"a\": \"0"),
            "DIR/sketch.json: a number of a function is not 32 hexadecimal digits"
        );
        assert!(with("\"float\"", "\"flaot\"").starts_with("DIR/sketch.json: unknown field `flaot`"));
        std::fs::write(about_path(path), &text).unwrap();
        std::fs::write(cells_path(path), "short").unwrap();
        assert!(error().starts_with("cannot read DIR/counters.npy: "), "{}", error());
    }
}
