//! Writes a trained model: `--export DIR`.
//!
//! `word_topic.npy` and `document_topic.npy` hold numbers of tokens, one word or training document per row,
//! one topic per column, in NumPy's format. `vocab.txt` has the words and their counts in the training
//! documents, `documents.txt` the names of the documents in the data. `topics.tsv` has the most frequent
//! words of each topic. `model.toml` has the other settings that `--model` needs.
//!
//! Each value is written to its place in the NumPy files as it arrives. The topics of documents are counted
//! at the end, from a file with all assignments, so that memory does not grow with the number of documents.

use crate::saved::{Settings, WORD_TOPIC, settings_path, words_path};
use intendant_core::{Element, Key, KeyRange};
use intendant_formats::{Matrices, Matrix, WriteError, npy_rows, write_text};
use intendant_train::{AppError, Exporter};
use lda::data::Corpus;
use lda::{Collector, Config};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes one model.
pub(crate) struct Export {
    corpus: Arc<Corpus>,
    config: Config,
    folder: PathBuf,
    matrices: Matrices,
    /// The range of the assignments, if there are any.
    assignments: Option<KeyRange>,
    totals: Option<KeyRange>,
    topics: Collector,
}

/// The temporary file of the assignments.
const ASSIGNMENTS: &str = "assignments";

impl Export {
    pub(crate) fn new(corpus: Arc<Corpus>, config: &Config) -> Self {
        let topics = Collector::new(config.topics, config.top_words);
        Self {
            corpus,
            config: config.clone(),
            folder: PathBuf::new(),
            matrices: Matrices::default(),
            assignments: None,
            totals: None,
            topics,
        }
    }

    /// Counts the topics of each document.
    fn documents<E: Element>(&self, range: &KeyRange) -> Result<(), AppError> {
        let path = self.folder.join(format!("{ASSIGNMENTS}.npy"));
        let unreadable = |source| WriteError::Write { file: path.clone(), source };
        let blocks = (range.keys.end - range.keys.start) as usize;
        let mut rows = npy_rows::<E>(&path, blocks, range.len).map_err(unreadable)?;
        let (training, topics) = (self.corpus.training(), self.config.topics);
        let mut matrix = Matrix::create::<E>(&self.folder, "document_topic", training.len() as u64, topics)?;
        let mut bytes = vec![0; range.len * size_of::<E>()];
        for document in 0..training.len() {
            let mut counts = vec![E::ZERO; topics];
            for _ in 0..training.tokens_of(document).div_ceil(range.len as u64) {
                rows.read_exact(&mut bytes).map_err(unreadable)?;
                for topic in bytes.chunks_exact(size_of::<E>()).map(E::read_le) {
                    if let Some(count) =
                        (topic.to_f64() as usize).checked_sub(1).and_then(|topic| counts.get_mut(topic))
                    {
                        *count += E::ONE;
                    }
                }
            }
            matrix.row(document as u64, &counts)?;
        }
        matrix.finish()?;
        drop(rows);
        Ok(std::fs::remove_file(&path).map_err(unreadable)?)
    }
}

impl<E: Element> Exporter<E> for Export {
    fn begin(&mut self, folder: &Path, ranges: &[KeyRange]) -> Result<(), AppError> {
        self.folder = folder.to_owned();
        self.matrices = Matrices::default();
        for range in ranges {
            let name = match range.name.as_str() {
                "word" => WORD_TOPIC,
                "assignment" => {
                    self.assignments = Some(range.clone());
                    ASSIGNMENTS
                }
                _ => {
                    // The totals are the sums of columns of the other matrix.
                    self.totals = Some(range.clone());
                    continue;
                }
            };
            self.matrices.add::<E>(folder, range, &[(name, 0..range.len)])?;
        }
        Ok(())
    }

    fn part(&mut self, keys: &[Key], values: &[E]) -> Result<(), AppError> {
        let words = self.corpus.words().len() as u64;
        let mut rest = values;
        for key in keys {
            let is_totals = self.totals.as_ref().is_some_and(|range| range.keys.contains(&key.0));
            let is_assignment = self.assignments.as_ref().filter(|range| range.keys.contains(&key.0));
            let len = is_assignment.map_or(self.config.topics, |range| range.len);
            let (value, after) = rest.split_at(len);
            rest = after;
            if !is_totals {
                self.matrices.write(&[*key], value)?;
            }
            if key.0 < words {
                self.topics.add(key.0 as u32, value);
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), AppError> {
        self.matrices.finish()?;
        if let Some(range) = &self.assignments {
            self.documents::<E>(range)?;
        }
        let (words, training) = (self.corpus.words(), self.corpus.training());
        let counts = training.counts(words.len());
        write_text(&words_path(&self.folder), |file| {
            words.iter().zip(&counts).try_for_each(|(word, count)| writeln!(file, "{word}\t{count}"))
        })?;
        write_text(&self.folder.join("documents.txt"), |file| {
            (0..training.len()).try_for_each(|document| writeln!(file, "{}", training.name(document)))
        })?;
        let topics = self.topics.clone().finish(self.config.eta, words.len());
        write_text(&self.folder.join("topics.tsv"), |file| write!(file, "{}", topics.tsv(words)))?;
        let Config { topics, alpha, eta, .. } = self.config;
        let settings = toml::to_string(&Settings::new(topics, alpha, eta, words.len()))?;
        Ok(write_text(&settings_path(&self.folder), |file| write!(file, "{settings}"))?)
    }
}
