//! Writes a trained model: `--export DIR`.
//!
//! `entity.npy`, `relation.npy` and, with reciprocal relations, `reciprocal.npy` hold one embedding per row (real parts, then
//! imaginary parts; no optimiser state), in NumPy's format. `entity_ids.txt` and `relation_ids.txt` name the rows, one per
//! line. `entities.w2v.txt` has the entities in word2vec's text format, where spaces in names become underscores.
//!
//! The values stream to their places in the files, so that memory does not grow with the model. Files get their names when
//! they are complete; what is left of an earlier export is replaced.

use intendant_core::{Element, ElementType, Key, KeyRange, copy_to_bytes};
use intendant_train::{AppError, Exporter};
use kge::data::{Dataset, Names};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes one model.
pub(crate) struct Export {
    folder: PathBuf,
    data: Arc<Dataset>,
    matrices: Vec<Matrix>,
    bytes: Vec<u8>,
}

/// A matrix that is being written, one row per key of a range.
struct Matrix {
    range: KeyRange,
    file: File,
    /// Where the rows begin.
    header_bytes: u64,
    /// Where the next byte would go.
    at: u64,
    /// Rows written.
    rows: u64,
}

/// What went wrong with a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    #[error("cannot write {}: {source}", file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("key {0} is in none of the model's ranges")]
    NoSuchKey(Key),
    #[error("the stream of values ended after {rows} of {expected} rows of {name}")]
    Incomplete { name: String, rows: u64, expected: u64 },
}

impl Export {
    /// Creates the folder.
    pub(crate) fn create(folder: &Path, data: Arc<Dataset>) -> Result<Self, ExportError> {
        fs::create_dir_all(folder)
            .map_err(|source| ExportError::Write { file: folder.to_owned(), source })?;
        Ok(Self { folder: folder.to_owned(), data, matrices: Vec::new(), bytes: Vec::new() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a text file that gets its name when it is complete.
    fn text(
        &self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), ExportError> {
        let (partial, path) = (self.path(&format!("{name}.partial")), self.path(name));
        let result = File::create(&partial).and_then(|file| {
            let mut file = BufWriter::new(file);
            write(&mut file)?;
            file.flush()?;
            fs::rename(&partial, &path)
        });
        result.map_err(|source| ExportError::Write { file: path, source })
    }

    fn ids(&self, name: &str, names: &Names) -> Result<(), ExportError> {
        self.text(name, |file| names.iter().try_for_each(|name| writeln!(file, "{name}")))
    }

    /// Converts the matrix of the entities, row by row.
    fn word2vec<E: Element>(&self, matrix: &Matrix) -> Result<(), ExportError> {
        let dim = matrix.dim();
        let numbers = self.path("entity.npy");
        self.text("entities.w2v.txt", |file| {
            let mut rows = BufReader::new(File::open(&numbers)?);
            rows.seek(SeekFrom::Start(matrix.header_bytes))?;
            writeln!(file, "{} {dim}", self.data.entities.len())?;
            let mut row = vec![0; dim * size_of::<E>()];
            for name in self.data.entities.iter() {
                rows.read_exact(&mut row)?;
                file.write_all(name.replace(char::is_whitespace, "_").as_bytes())?;
                for bytes in row.chunks_exact(size_of::<E>()) {
                    write!(file, " {}", E::read_le(bytes))?;
                }
                file.write_all(b"\n")?;
            }
            Ok(())
        })
    }
}

impl Matrix {
    /// Real numbers per embedding: the first half of a value.
    fn dim(&self) -> usize {
        self.range.len / 2
    }

    fn keys(&self) -> u64 {
        self.range.keys.end - self.range.keys.start
    }

    fn write(&mut self, key: Key, bytes: &[u8]) -> io::Result<()> {
        let to = self.header_bytes + (key.0 - self.range.keys.start) * bytes.len() as u64;
        if to != self.at {
            self.file.seek(SeekFrom::Start(to))?;
        }
        self.file.write_all(bytes)?;
        self.at = to + bytes.len() as u64;
        self.rows += 1;
        Ok(())
    }
}

impl<E: Element> Exporter<E> for Export {
    fn begin(&mut self, ranges: &[KeyRange]) -> Result<(), AppError> {
        for range in ranges {
            let header = npy_header(E::TYPE, range.keys.end - range.keys.start, range.len / 2);
            let path = self.path(&format!("{}.npy.partial", range.name));
            let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
            let file = file.and_then(|mut file| file.write_all(&header).map(|()| file));
            let file = file.map_err(|source| ExportError::Write { file: path, source })?;
            let header_bytes = header.len() as u64;
            self.matrices.push(Matrix {
                range: range.clone(),
                file,
                header_bytes,
                at: header_bytes,
                rows: 0,
            });
        }
        Ok(())
    }

    fn part(&mut self, keys: &[Key], values: &[E]) -> Result<(), AppError> {
        let mut rest = values;
        for key in keys {
            let matrix = self.matrices.iter_mut().find(|m| m.range.keys.contains(&key.0));
            let matrix = matrix.ok_or(ExportError::NoSuchKey(*key))?;
            let (value, after) = rest.split_at(matrix.range.len);
            rest = after;
            self.bytes.clear();
            copy_to_bytes(&value[..matrix.dim()], &mut self.bytes);
            let written = matrix.write(*key, &self.bytes);
            written.map_err(|source| {
                let file = self.folder.join(format!("{}.npy", matrix.range.name));
                ExportError::Write { file, source }
            })?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), AppError> {
        let matrices = std::mem::take(&mut self.matrices);
        for matrix in &matrices {
            let (name, rows, expected) = (&matrix.range.name, matrix.rows, matrix.keys());
            if rows != expected {
                return Err(ExportError::Incomplete { name: name.clone(), rows, expected }.into());
            }
            let path = self.path(&format!("{name}.npy"));
            fs::rename(self.path(&format!("{name}.npy.partial")), &path)
                .map_err(|source| ExportError::Write { file: path, source })?;
        }
        self.ids("entity_ids.txt", &self.data.entities)?;
        self.ids("relation_ids.txt", &self.data.relations)?;
        for matrix in matrices.iter().filter(|m| m.range.name == "entity") {
            self.word2vec::<E>(matrix)?;
        }
        Ok(())
    }
}

/// The header of a NumPy file, format 1.0: rows of little-endian numbers, padded so that they begin at a multiple of 64 bytes.
fn npy_header(element: ElementType, rows: u64, columns: usize) -> Vec<u8> {
    const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
    let kind = match element {
        ElementType::F32 => "<f4",
        ElementType::F64 => "<f8",
    };
    let mut text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    let before_text = MAGIC.len() + size_of::<u16>();
    let total = (before_text + text.len() + 1).next_multiple_of(64);
    text.push_str(&" ".repeat(total - before_text - text.len() - 1));
    text.push('\n');
    let mut header = MAGIC.to_vec();
    // Two numbers and a fixed text: far below 65,536 bytes.
    header.extend_from_slice(&(text.len() as u16).to_le_bytes());
    header.extend_from_slice(text.as_bytes());
    header
}
