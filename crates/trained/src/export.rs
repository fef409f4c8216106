//! A folder that `--export` wrote.

use crate::Table;
use intendant_core::{Element, ElementType, copy_from_bytes};
use intendant_formats::{Names, TextError, lines, open};
use npyz::{DType, NpyFile, Order, TypeChar};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// The file that says what the folder holds.
pub const MANIFEST: &str = "export.json";

/// The version of that file's schema.
const SCHEMA: &str = "intendant.export/1";

/// The longest text of a manifest, bytes.
const MANIFEST_MAX: u64 = 1 << 24;

/// Bytes of a matrix that are read at once.
const PIECE: usize = 1 << 20;

/// Why a trained model cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainedError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}{}", file.display(), hint(file))]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what an export writes.
    #[error("{}: {reason}", file.display())]
    Wrong {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A text file cannot be read.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// What to do if there is no manifest.
fn hint(file: &Path) -> &'static str {
    if file.ends_with(MANIFEST) { "; name a folder that --export wrote" } else { "" }
}

/// The members of a manifest that readers need.
#[derive(Debug, Deserialize)]
struct Manifest {
    schema: String,
    program: String,
    config: serde_json::Map<String, serde_json::Value>,
    files: BTreeMap<String, u64>,
}

/// An exported model.
#[derive(Debug)]
pub struct Export {
    folder: PathBuf,
    manifest: Manifest,
    /// The whole manifest.
    text: serde_json::Map<String, serde_json::Value>,
}

impl Export {
    /// Opens a folder that `program` exported to.
    ///
    /// # Errors
    /// If it has no model of this program, or a file of the model is missing or has another size.
    pub fn open(folder: &Path, program: &str) -> Result<Self, TrainedError> {
        let file = folder.join(MANIFEST);
        let read = |source| TrainedError::Read { file: file.clone(), source };
        let mut text = Vec::new();
        File::open(&file).and_then(|open| open.take(MANIFEST_MAX).read_to_end(&mut text)).map_err(read)?;
        let wrong = |reason: String| TrainedError::Wrong { file: file.clone(), reason };
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        let text = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        if manifest.schema != SCHEMA {
            return Err(wrong(format!("the schema is '{}'; this version reads {SCHEMA}", manifest.schema)));
        }
        if manifest.program != program {
            return Err(wrong(format!(
                "the model is one of {}; this program is {program}",
                manifest.program
            )));
        }
        for (name, bytes) in &manifest.files {
            let file = folder.join(name);
            let found =
                file.metadata().map_err(|source| TrainedError::Read { file: file.clone(), source })?;
            if found.len() != *bytes {
                let reason = format!("it has {} bytes, and was exported with {bytes}", found.len());
                return Err(TrainedError::Wrong { file, reason });
            }
        }
        Ok(Self { folder: folder.to_owned(), manifest, text })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All that `export.json` says of the model.
    #[must_use]
    pub fn manifest(&self) -> &serde_json::Map<String, serde_json::Value> {
        &self.text
    }

    /// The model's files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.manifest.files.keys().map(String::as_str)
    }

    /// The value of a flag of the run that made the model.
    #[must_use]
    pub fn setting(&self, flag: &str) -> Option<&serde_json::Value> {
        self.manifest.config.get(flag)
    }

    /// The element type of the model.
    ///
    /// # Errors
    /// If the configuration does not have it.
    pub fn element(&self) -> Result<ElementType, TrainedError> {
        match self.setting("float").and_then(serde_json::Value::as_str) {
            Some("f32") => Ok(ElementType::F32),
            Some("f64") => Ok(ElementType::F64),
            other => Err(self.wrong(MANIFEST, format!("the flag 'float' is {other:?}; it is f32 or f64"))),
        }
    }

    /// Whether the model has a file of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.manifest.files.contains_key(name)
    }

    /// An error about one of the files.
    #[must_use]
    pub fn wrong(&self, name: &str, reason: String) -> TrainedError {
        TrainedError::Wrong { file: self.folder.join(name), reason }
    }

    /// The matrix in `NAME.npy`.
    ///
    /// # Errors
    /// If there is none, or its elements have another type.
    pub fn table<E: Element>(&self, name: &str) -> Result<Table<E>, TrainedError> {
        let name = format!("{name}.npy");
        let file = self.folder.join(&name);
        let read = |source| TrainedError::Read { file: file.clone(), source };
        let mut open = BufReader::new(File::open(&file).map_err(read)?);
        let bytes = open.get_ref().metadata().map_err(read)?.len();
        let header = NpyFile::new(&mut open).map_err(read)?;
        let size = size_of::<E>();
        let is_ours = matches!(
            header.dtype(),
            DType::Plain(kind) if kind.type_char() == TypeChar::Float && kind.size_field() == size as u64
        );
        if !is_ours || header.order() != Order::C {
            let reason = format!("it does not hold rows of {} numbers", E::TYPE);
            return Err(self.wrong(&name, reason));
        }
        let &[rows, columns] = header.shape() else {
            return Err(self.wrong(&name, "it is no matrix".to_owned()));
        };
        drop(header);
        // The header may claim anything: the file has that many bytes, or not.
        let all = rows.checked_mul(columns).and_then(|count| count.checked_mul(size as u64));
        let Some(all) = all.filter(|all| *all <= bytes && columns > 0) else {
            return Err(
                self.wrong(&name, format!("a matrix of {rows} × {columns} does not fit into the file"))
            );
        };
        let mut values = vec![E::ZERO; all as usize / size];
        let mut piece = vec![0; PIECE.next_multiple_of(size)];
        for values in values.chunks_mut(piece.len() / size) {
            let piece = &mut piece[..size_of_val(values)];
            open.read_exact(piece).map_err(read)?;
            copy_from_bytes(values, piece);
        }
        Ok(Table::new(values, columns as usize))
    }

    /// The same, which must have this many rows and columns.
    ///
    /// # Errors
    /// If it has others, or as [`Export::table`].
    pub fn table_of<E: Element>(
        &self,
        name: &str,
        rows: usize,
        columns: usize,
    ) -> Result<Table<E>, TrainedError> {
        let table = self.table::<E>(name)?;
        let found = (table.rows(), table.columns());
        if found != (rows, columns) {
            let reason = format!("it has {} × {} numbers, not {rows} × {columns}", found.0, found.1);
            return Err(self.wrong(&format!("{name}.npy"), reason));
        }
        Ok(table)
    }

    /// A file of the model as it is.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>, TrainedError> {
        let file = self.folder.join(name);
        fs::read(&file).map_err(|source| TrainedError::Read { file, source })
    }

    /// The number in a text file that has nothing else.
    ///
    /// # Errors
    /// If it cannot be read, or is no number.
    pub fn number(&self, name: &str) -> Result<f64, TrainedError> {
        let text = String::from_utf8_lossy(&self.bytes(name)?).trim().to_owned();
        text.parse().map_err(|_| self.wrong(name, format!("it is '{text}', which is no number")))
    }

    /// The names in a text file, one per line.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn names(&self, name: &str) -> Result<Names, TrainedError> {
        let file = self.folder.join(name);
        let mut names = Names::default();
        lines(&file.display().to_string(), open(&file)?, |line| {
            names.push(line);
            Ok(())
        })?;
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_formats::{Matrix, write_text};
    use std::io::Write;

    /// An export of a matrix and its names.
    fn export(folder: &Path) {
        let mut matrix = Matrix::create::<f32>(folder, "vectors", 2, 3).unwrap();
        matrix.row(0, &[1.0f32, 2.0, 3.0]).unwrap();
        matrix.row(1, &[4.0f32, 5.0, 6.0]).unwrap();
        matrix.finish().unwrap();
        write_text(&folder.join("names.txt"), |file| write!(file, "a\nb\n")).unwrap();
        manifest(folder, "float", "f32");
    }

    fn manifest(folder: &Path, flag: &str, value: &str) {
        let bytes = |name: &str| folder.join(name).metadata().unwrap().len();
        let manifest = serde_json::json!({
            "schema": SCHEMA, "program": "p", "version": "1", "process": 1, "data_digest": "0",
            "config": { flag: value },
            "files": { "vectors.npy": bytes("vectors.npy"), "names.txt": bytes("names.txt") },
        });
        fs::write(folder.join(MANIFEST), manifest.to_string()).unwrap();
    }

    #[test]
    fn an_export_is_read() {
        let folder = tempfile::tempdir().unwrap();
        export(folder.path());
        let export = Export::open(folder.path(), "p").unwrap();
        assert_eq!(export.element().unwrap(), ElementType::F32);
        assert_eq!(
            export.table::<f32>("vectors").unwrap(),
            Table::new(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3)
        );
        assert_eq!(export.names("names.txt").unwrap().iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(export.has("names.txt") && !export.has("others.txt"));
        assert!(export.table::<f64>("vectors").unwrap_err().to_string().contains("rows of f64 numbers"));
    }

    #[test]
    fn what_is_no_model_of_the_program_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |program: &str| Export::open(folder.path(), program).unwrap_err().to_string();
        assert!(refused("p").contains("name a folder that --export wrote"), "{}", refused("p"));
        export(folder.path());
        assert!(refused("q").contains("the model is one of p; this program is q"));
        fs::write(folder.path().join("names.txt"), "a\n").unwrap();
        assert!(
            refused("p").contains("names.txt: it has 2 bytes, and was exported with 4"),
            "{}",
            refused("p")
        );
        fs::write(folder.path().join(MANIFEST), "{}").unwrap();
        assert!(refused("p").contains("missing field"), "{}", refused("p"));
    }

    /// Each byte of the header is changed to each value of a few, and the file is cut everywhere.
    #[test]
    fn a_damaged_matrix_is_an_error_and_takes_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        export(folder.path());
        let file = folder.path().join("vectors.npy");
        let whole = fs::read(&file).unwrap();
        let opened = Export::open(folder.path(), "p").unwrap();
        for at in 0..128.min(whole.len()) {
            for value in [0, b'9', b'-', 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                fs::write(&file, &damaged).unwrap();
                // An error, or a matrix that the file has.
                if let Ok(table) = opened.table::<f32>("vectors") {
                    assert!(table.values().len() * 4 <= whole.len(), "byte {at} is {value}");
                }
            }
        }
        for len in 0..whole.len() {
            fs::write(&file, &whole[..len]).unwrap();
            assert!(opened.table::<f32>("vectors").is_err(), "{len} bytes");
        }
    }
}
