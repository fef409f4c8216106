//! Writes a trained model: `--export DIR`.
//!
//! `input.npy` and `output.npy` hold the vectors, one word per row, in NumPy's format; `vocab.txt` names the rows, one word and its
//! count per line. `model.safetensors` holds both matrices as well. `vectors.txt` and `vectors.bin` have the input vectors in the text and
//! the binary format of the original program; the binary one is in single precision. Optimiser state is left out.
//!
//! The values stream to their places in the NumPy files, from which the others are made, so that memory does not grow with the
//! model. Files get their names when they are complete; those of an earlier export are replaced.

use intendant_core::{Element, ElementType, Key, KeyRange};
use intendant_formats::{Matrix, WriteError, write_text};
use intendant_train::{AppError, Exporter};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use word2vec::data::Corpus;

/// Writes one model.
pub(crate) struct Export {
    folder: PathBuf,
    corpus: Arc<Corpus>,
    dim: usize,
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
    pub(crate) fn create(folder: &Path, corpus: Arc<Corpus>, dim: usize) -> Result<Self, ExportError> {
        fs::create_dir_all(folder).map_err(|source| WriteError::Write { file: folder.to_owned(), source })?;
        Ok(Self { folder: folder.to_owned(), corpus, dim, matrices: Vec::new() })
    }

    /// The rows of a NumPy file, which are its end.
    fn rows<E: Element>(&self, numbers: &Path) -> io::Result<BufReader<File>> {
        let mut rows = BufReader::new(File::open(numbers)?);
        let bytes = self.corpus.vocabulary().len() * self.dim * size_of::<E>();
        rows.seek(SeekFrom::End(-(bytes as i64)))?;
        Ok(rows)
    }

    /// Writes a file with the words and their input vectors; `write` writes one of them.
    fn vectors<E: Element>(
        &self,
        name: &str,
        numbers: &Path,
        write: impl Fn(&mut BufWriter<File>, &[u8], &[E]) -> io::Result<()>,
    ) -> Result<(), WriteError> {
        write_text(&self.folder.join(name), |file| {
            let vocabulary = self.corpus.vocabulary();
            let (mut bytes, mut vector) = (vec![0; self.dim * size_of::<E>()], vec![E::ZERO; self.dim]);
            let mut rows = self.rows::<E>(numbers)?;
            writeln!(file, "{} {}", vocabulary.len(), self.dim)?;
            for word in vocabulary.words() {
                rows.read_exact(&mut bytes)?;
                for (x, bytes) in vector.iter_mut().zip(bytes.chunks_exact(size_of::<E>())) {
                    *x = E::read_le(bytes);
                }
                write(file, word, &vector)?;
            }
            Ok(())
        })
    }

    /// Writes the matrices one after the other, behind a header that says where each is.
    fn safetensors<E: Element>(&self, matrices: &[(String, PathBuf)]) -> Result<(), WriteError> {
        let kind = match E::TYPE {
            ElementType::F32 => "F32",
            ElementType::F64 => "F64",
        };
        let rows = self.corpus.vocabulary().len();
        let bytes = rows * self.dim * size_of::<E>();
        let mut header = serde_json::Map::new();
        for (at, (name, _)) in matrices.iter().enumerate() {
            let offsets = [at * bytes, (at + 1) * bytes];
            let tensor =
                serde_json::json!({ "dtype": kind, "shape": [rows, self.dim], "data_offsets": offsets });
            header.insert(name.clone(), tensor);
        }
        let mut header = serde_json::Value::Object(header).to_string();
        // Numbers begin at a multiple of eight bytes, as the format asks for.
        while !header.len().is_multiple_of(8) {
            header.push(' ');
        }
        write_text(&self.folder.join("model.safetensors"), |file| {
            file.write_all(&(header.len() as u64).to_le_bytes())?;
            file.write_all(header.as_bytes())?;
            for (_, numbers) in matrices {
                io::copy(&mut self.rows::<E>(numbers)?, file)?;
            }
            Ok(())
        })
    }

    fn complete<E: Element>(&mut self) -> Result<(), ExportError> {
        let mut matrices = Vec::new();
        for (range, matrix) in self.matrices.drain(..) {
            matrices.push((range.name.clone(), matrix.finish()?));
        }
        self.safetensors::<E>(&matrices)?;
        if let Some((_, input)) = matrices.iter().find(|(name, _)| name == "input") {
            self.vectors("vectors.txt", input, |file, word, vector: &[E]| {
                file.write_all(word)?;
                vector.iter().try_for_each(|x| write!(file, " {x}"))?;
                file.write_all(b"\n")
            })?;
            self.vectors("vectors.bin", input, |file, word, vector: &[E]| {
                file.write_all(word)?;
                file.write_all(b" ")?;
                vector.iter().try_for_each(|x| file.write_all(&(x.to_f64() as f32).to_le_bytes()))?;
                file.write_all(b"\n")
            })?;
        }
        let vocabulary = self.corpus.vocabulary();
        write_text(&self.folder.join("vocab.txt"), |file| {
            vocabulary.words().zip(vocabulary.counts()).try_for_each(|(word, count)| {
                file.write_all(word)?;
                writeln!(file, " {count}")
            })
        })?;
        Ok(())
    }
}

impl<E: Element> Exporter<E> for Export {
    fn begin(&mut self, ranges: &[KeyRange]) -> Result<(), AppError> {
        for range in ranges {
            let rows = range.keys.end - range.keys.start;
            let matrix = Matrix::create::<E>(&self.folder, &range.name, rows, self.dim)?;
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
            matrix.row(key.0 - range.keys.start, &value[..self.dim])?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), AppError> {
        Ok(self.complete::<E>()?)
    }
}
