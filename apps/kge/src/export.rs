//! Writes a trained model: `--export DIR`.
//!
//! `entity.npy`, `relation.npy` and, with reciprocal relations, `reciprocal.npy` hold one embedding per row, in NumPy's format:
//! for ComplEx real parts, then imaginary parts; for RESCAL's relations the rows of the matrix, one after the other; no
//! optimiser state. `entity_ids.txt` and `relation_ids.txt` name the rows, one per line. `entities.w2v.txt` has the entities
//! in word2vec's text format, where spaces in names become underscores.
//!
//! The values stream to their places in the files, so that memory does not grow with the model. Files get their names when
//! they are complete; what is left of an earlier export is replaced, and removed if this model has none of its kind.

use intendant_core::{Element, Key, KeyRange};
use intendant_formats::{Matrix, WriteError, remove, write_text};
use intendant_train::{AppError, Exporter};
use kge::data::{Dataset, Names};
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes one model.
pub(crate) struct Export {
    folder: PathBuf,
    data: Arc<Dataset>,
    /// One per key range, in order.
    matrices: Vec<(KeyRange, Matrix)>,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("key {0} is in none of the model's ranges")]
    NoSuchKey(Key),
}

impl Export {
    /// Creates the folder.
    pub(crate) fn create(folder: &Path, data: Arc<Dataset>) -> Result<Self, ExportError> {
        fs::create_dir_all(folder).map_err(|source| WriteError::Write { file: folder.to_owned(), source })?;
        Ok(Self { folder: folder.to_owned(), data, matrices: Vec::new() })
    }

    fn ids(&self, name: &str, names: &Names) -> Result<(), WriteError> {
        write_text(&self.folder.join(name), |file| names.iter().try_for_each(|name| writeln!(file, "{name}")))
    }

    /// Converts the matrix of the entities, whose rows are the end of `numbers`, row by row.
    fn word2vec<E: Element>(&self, numbers: &Path, dim: usize) -> Result<(), WriteError> {
        write_text(&self.folder.join("entities.w2v.txt"), |file| {
            let mut row = vec![0; dim * size_of::<E>()];
            let entities = self.data.entities.len();
            let mut rows = BufReader::new(File::open(numbers)?);
            rows.seek(SeekFrom::End(-((entities * row.len()) as i64)))?;
            writeln!(file, "{entities} {dim}")?;
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

/// Real numbers per embedding: the first half of a value.
fn dim(range: &KeyRange) -> usize {
    range.len / 2
}

impl<E: Element> Exporter<E> for Export {
    fn begin(&mut self, ranges: &[KeyRange]) -> Result<(), AppError> {
        for range in ranges {
            let rows = range.keys.end - range.keys.start;
            let matrix = Matrix::create::<E>(&self.folder, &range.name, rows, dim(range))?;
            self.matrices.push((range.clone(), matrix));
        }
        Ok(())
    }

    fn part(&mut self, keys: &[Key], values: &[E]) -> Result<(), AppError> {
        let mut rest = values;
        for key in keys {
            let found = self.matrices.iter_mut().find(|(range, _)| range.keys.contains(&key.0));
            let (range, matrix) = found.ok_or(ExportError::NoSuchKey(*key))?;
            let (value, after) = rest.split_at(range.len);
            rest = after;
            matrix.row(key.0 - range.keys.start, &value[..dim(range)])?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), AppError> {
        let mut entities = None;
        let reciprocal = self.matrices.iter().any(|(range, _)| range.name == "reciprocal");
        for (range, matrix) in self.matrices.drain(..) {
            let path = matrix.finish()?;
            if range.name == "entity" {
                entities = Some((path, dim(&range)));
            }
        }
        self.ids("entity_ids.txt", &self.data.entities)?;
        self.ids("relation_ids.txt", &self.data.relations)?;
        if let Some((numbers, dim)) = entities {
            self.word2vec::<E>(&numbers, dim)?;
        }
        if !reciprocal {
            remove(&self.folder.join("reciprocal.npy"))?;
        }
        Ok(())
    }
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

    /// An export into an empty folder, of two entities and a relation of which only the first `keys` values come.
    fn export(folder: &Path, keys: u64) -> Result<(), AppError> {
        assert_eq!(files(folder), [""; 0]);
        export_over(folder, keys)
    }

    /// The same into any folder.
    fn export_over(folder: &Path, keys: u64) -> Result<(), AppError> {
        let (mut entities, mut relations) = (Names::default(), Names::default());
        ["a", "b"].iter().for_each(|name| entities.push(name));
        relations.push("r");
        let train = vec![Triple { subject: 0, relation: 0, object: 1 }];
        let data = Dataset::new(entities, relations, train, Vec::new(), Vec::new());
        let mut export = Export::create(folder, Arc::new(data))?;
        let range = |name: &str, keys| KeyRange { name: name.to_owned(), keys, len: 4 };
        let exporter: &mut dyn Exporter<f32> = &mut export;
        exporter.begin(&[range("entity", 0..2), range("relation", 2..3)])?;
        let partial = ["entity.npy.partial", "relation.npy.partial"];
        assert!(partial.iter().all(|name| files(folder).iter().any(|file| file == name)));
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
        let file = folder.path().join("entity.npy");
        assert_eq!(error, format!("the stream of values ended after 1 of 2 rows of {}", file.display()));
        assert_eq!(files(folder.path()), [""; 0]);
    }

    #[test]
    fn nothing_of_an_earlier_model_stays() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["reciprocal.npy", "relation.npy", "notes.txt"] {
            fs::write(folder.path().join(name), "old").unwrap();
        }
        export_over(folder.path(), 1).unwrap_err();
        assert!(files(folder.path()).contains(&"reciprocal.npy".to_owned()), "until the new one is complete");
        export_over(folder.path(), 3).unwrap();
        let left = files(folder.path());
        assert!(
            !left.contains(&"reciprocal.npy".to_owned()) && left.contains(&"notes.txt".to_owned()),
            "{left:?}"
        );
        assert_ne!(fs::read(folder.path().join("relation.npy")).unwrap(), b"old");
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
