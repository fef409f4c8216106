//! Writes a trained model: `--export DIR`.
//!
//! `entity.npy`, `relation.npy` and, with reciprocal relations, `reciprocal.npy` hold one embedding per row, in NumPy's format:
//! for ComplEx real parts, then imaginary parts; for RESCAL's relations the rows of the matrix, one after the other; no
//! optimiser state. `entity_ids.txt` and `relation_ids.txt` name the rows, one per line. `entities.w2v.txt` has the entities
//! in word2vec's text format, where spaces in names become underscores.
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
    /// Gathers neighbouring rows.
    file: BufWriter<File>,
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
        if result.is_err() {
            // The first error is the one to tell.
            let _ = fs::remove_file(&partial);
        }
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
    /// Columns, real numbers per embedding: the first half of a value.
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
            let file =
                File::create(&path).map_err(|source| ExportError::Write { file: path.clone(), source })?;
            let mut file = BufWriter::new(file);
            let written = file.write_all(&header);
            let header_bytes = header.len() as u64;
            self.matrices.push(Matrix {
                range: range.clone(),
                file,
                header_bytes,
                at: header_bytes,
                rows: 0,
            });
            written.map_err(|source| ExportError::Write { file: path, source })?;
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
        let folder = &self.folder;
        for matrix in &mut self.matrices {
            let (name, rows, expected) = (&matrix.range.name, matrix.rows, matrix.keys());
            if rows != expected {
                return Err(ExportError::Incomplete { name: name.clone(), rows, expected }.into());
            }
            let path = folder.join(format!("{name}.npy"));
            let partial = folder.join(format!("{name}.npy.partial"));
            let done = matrix.file.flush().and_then(|()| fs::rename(partial, &path));
            done.map_err(|source| ExportError::Write { file: path, source })?;
        }
        self.ids("entity_ids.txt", &self.data.entities)?;
        self.ids("relation_ids.txt", &self.data.relations)?;
        for matrix in self.matrices.iter().filter(|m| m.range.name == "entity") {
            self.word2vec::<E>(matrix)?;
        }
        Ok(())
    }
}

impl Drop for Export {
    /// Removes what an export that failed leaves behind.
    fn drop(&mut self) {
        for matrix in &self.matrices {
            // Files that are complete have another name by now.
            let _ = fs::remove_file(self.path(&format!("{}.npy.partial", matrix.range.name)));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use kge::data::Triple;

    fn files(folder: &Path) -> Vec<String> {
        let mut files: Vec<String> =
            fs::read_dir(folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        files
    }

    /// An export of two entities and a relation of which only the first `keys` values come.
    fn export(folder: &Path, keys: u64) -> Result<(), AppError> {
        let (mut entities, mut relations) = (Names::default(), Names::default());
        ["a", "b"].iter().for_each(|name| entities.push(name));
        relations.push("r");
        let train = vec![Triple { subject: 0, relation: 0, object: 1 }];
        let data = Dataset::new(entities, relations, train, Vec::new(), Vec::new());
        let mut export = Export::create(folder, Arc::new(data))?;
        let range = |name: &str, keys| KeyRange { name: name.to_owned(), keys, len: 4 };
        let exporter: &mut dyn Exporter<f32> = &mut export;
        exporter.begin(&[range("entity", 0..2), range("relation", 2..3)])?;
        assert_eq!(files(folder), ["entity.npy.partial", "relation.npy.partial"]);
        // Backwards: every row has to find its place.
        for key in (0..keys).rev() {
            exporter.part(&[Key(key)], &[key as f32, 0.5, 9.0, 9.0])?;
        }
        exporter.end()
    }

    #[test]
    fn an_export_that_fails_leaves_no_parts() {
        let folder = tempfile::tempdir().unwrap();
        let error = export(folder.path(), 1).unwrap_err().to_string();
        assert_eq!(error, "the stream of values ended after 1 of 2 rows of entity");
        assert_eq!(files(folder.path()), [""; 0]);
    }

    #[test]
    fn rows_find_their_places_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        export(folder.path(), 3).unwrap();
        let text = fs::read_to_string(folder.path().join("entities.w2v.txt")).unwrap();
        assert_eq!(text, "2 2\na 0 0.5\nb 1 0.5\n");
        assert!(files(folder.path()).iter().all(|name| !name.ends_with(".partial")));
    }
}
