//! Writes a trained model: `--export DIR`.
//!
//! `input.npy` and `output.npy` hold the vectors, one word per row, in NumPy's format; `vocab.txt` names the
//! rows, one word and its count per line. `model.safetensors` holds both matrices as well. `vectors.txt` and
//! `vectors.bin` have the input vectors in the text and the binary format of the original program; the binary
//! one is in single precision. Optimiser state is left out.
//!
//! Each value is written to its place in the NumPy files as it arrives. The other files are converted from
//! these, so that memory does not grow with the model.

use intendant_core::{Element, Key, KeyRange};
use intendant_formats::{Matrices, WriteError, npy_rows, safetensors_header, write_text, write_vector};
use intendant_train::{AppError, Exporter};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use word2vec::data::Corpus;

/// Writes one model.
pub(crate) struct Export {
    corpus: Arc<Corpus>,
    dim: usize,
    folder: PathBuf,
    /// Names of the matrices, in the order of their keys.
    names: Vec<String>,
    matrices: Matrices,
}

impl Export {
    pub(crate) fn new(corpus: Arc<Corpus>, dim: usize) -> Self {
        Self { corpus, dim, folder: PathBuf::new(), names: Vec::new(), matrices: Matrices::default() }
    }

    /// The rows of a complete matrix.
    fn rows<E: Element>(&self, name: &str) -> io::Result<BufReader<File>> {
        npy_rows::<E>(&self.folder.join(format!("{name}.npy")), self.corpus.vocabulary().len(), self.dim)
    }

    /// Writes a file with the words and their input vectors; `write` writes one word and its vector.
    fn vectors<E: Element>(
        &self,
        name: &str,
        write: impl Fn(&mut BufWriter<File>, &[u8], &[E]) -> io::Result<()>,
    ) -> Result<(), WriteError> {
        write_text(&self.folder.join(name), |file| {
            let vocabulary = self.corpus.vocabulary();
            let (mut bytes, mut vector) = (vec![0; self.dim * size_of::<E>()], vec![E::ZERO; self.dim]);
            let mut rows = self.rows::<E>("input")?;
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

    /// Writes the matrices one after the other, after a header that states the place of each.
    fn safetensors<E: Element>(&self) -> Result<(), WriteError> {
        let shape = vec![self.corpus.vocabulary().len() as u64, self.dim as u64];
        let tensors: Vec<_> = self.names.iter().map(|name| (name.as_str(), shape.clone())).collect();
        let header = safetensors_header(E::TYPE, &tensors, &[]);
        write_text(&self.folder.join("model.safetensors"), |file| {
            file.write_all(&header)?;
            for name in &self.names {
                io::copy(&mut self.rows::<E>(name)?, file)?;
            }
            Ok(())
        })
    }

    /// Writes the files that are converted from the matrices.
    fn convert<E: Element>(&self) -> Result<(), WriteError> {
        self.safetensors::<E>()?;
        self.vectors("vectors.txt", |file, word, vector: &[E]| write_vector(file, word, vector))?;
        self.vectors("vectors.bin", |file, word, vector: &[E]| {
            file.write_all(word)?;
            file.write_all(b" ")?;
            vector.iter().try_for_each(|x| file.write_all(&(x.to_f64() as f32).to_le_bytes()))?;
            file.write_all(b"\n")
        })?;
        let vocabulary = self.corpus.vocabulary();
        write_text(&self.folder.join("vocab.txt"), |file| {
            vocabulary.words().zip(vocabulary.counts()).try_for_each(|(word, count)| {
                file.write_all(word)?;
                writeln!(file, " {count}")
            })
        })
    }
}

impl<E: Element> Exporter<E> for Export {
    fn begin(&mut self, folder: &Path, ranges: &[KeyRange]) -> Result<(), AppError> {
        self.folder = folder.to_owned();
        self.matrices = Matrices::default();
        self.names.clear();
        for range in ranges {
            self.matrices.add::<E>(folder, range, &[(&range.name, 0..self.dim)])?;
            self.names.push(range.name.clone());
        }
        Ok(())
    }

    fn part(&mut self, keys: &[Key], values: &[E]) -> Result<(), AppError> {
        Ok(self.matrices.write(keys, values)?)
    }

    fn end(&mut self) -> Result<(), AppError> {
        self.matrices.finish()?;
        Ok(self.convert::<E>()?)
    }
}
