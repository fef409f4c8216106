//! Exported models as files: the files that the export writes; `--model` and commands read them.
//!
//! `model.toml` has the hyperparameters, `vocab.txt` the words, and `word_topic.npy` the tokens of each word
//! in each topic.

use intendant_formats::{Names, TextError, lines, open};
use lda::WordCounts;
use npyz::{DType, NpyFile, Order};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// The version of the files.
const SCHEMA: &str = "intendant.lda/1";

/// The matrix of counts, without `.npy`.
pub(crate) const WORD_TOPIC: &str = "word_topic";

/// The hyperparameters of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    schema: String,
    pub(crate) topics: usize,
    pub(crate) alpha: f64,
    pub(crate) eta: f64,
    pub(crate) words: usize,
}

impl Settings {
    pub(crate) fn new(topics: usize, alpha: f64, eta: f64, words: usize) -> Self {
        Self { schema: SCHEMA.to_owned(), topics, alpha, eta, words }
    }
}

/// Why an exported model cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SavedError {
    #[error("cannot read {}: {source}; name a folder that --export wrote", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("{}: {reason}", file.display())]
    Wrong { file: PathBuf, reason: String },
    #[error(transparent)]
    Words(#[from] TextError),
}

/// The files in a folder.
pub(crate) fn settings_path(folder: &Path) -> PathBuf {
    folder.join("model.toml")
}

pub(crate) fn words_path(folder: &Path) -> PathBuf {
    folder.join("vocab.txt")
}

pub(crate) fn counts_path(folder: &Path) -> PathBuf {
    folder.join(format!("{WORD_TOPIC}.npy"))
}

/// Reads the hyperparameters.
pub(crate) fn settings(folder: &Path) -> Result<Settings, SavedError> {
    let file = settings_path(folder);
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(source) => return Err(SavedError::Read { file, source }),
    };
    let wrong = |reason: String| SavedError::Wrong { file: file.clone(), reason };
    let settings: Settings =
        toml::from_str(&text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))?;
    if settings.schema != SCHEMA {
        return Err(wrong(format!("the schema is '{}'; this version reads {SCHEMA}", settings.schema)));
    }
    Ok(settings)
}

/// Reads the words and their counts.
pub(crate) fn model(folder: &Path, settings: &Settings) -> Result<(Names, WordCounts), SavedError> {
    let file = words_path(folder);
    let mut words = Names::default();
    lines(&file.display().to_string(), open(&file)?, |line| {
        let (word, _) = line.split_once('\t').ok_or("expected a word and a number, separated by a tab")?;
        words.push(word);
        Ok(())
    })?;
    if words.len() != settings.words {
        let reason = format!("there are {} words; model.toml says {}", words.len(), settings.words);
        return Err(SavedError::Wrong { file, reason });
    }
    let file = counts_path(folder);
    let counts = counts(&file, [settings.words as u64, settings.topics as u64])?;
    Ok((words, WordCounts(counts)))
}

/// Reads the matrix of counts.
fn counts(file: &Path, shape: [u64; 2]) -> Result<Vec<f64>, SavedError> {
    let unreadable = |source: io::Error| SavedError::Read { file: file.to_owned(), source };
    let wrong = |reason: String| SavedError::Wrong { file: file.to_owned(), reason };
    let npy = NpyFile::new(BufReader::new(File::open(file).map_err(unreadable)?)).map_err(unreadable)?;
    if npy.shape() != shape || npy.order() != Order::C {
        return Err(wrong(format!("the shape is {:?}; model.toml says {shape:?}", npy.shape())));
    }
    let bytes = match npy.dtype() {
        DType::Plain(plain) => plain.size_field(),
        DType::Array(..) | DType::Record(_) => 0,
    };
    let counts: io::Result<Vec<f64>> = match bytes {
        4 => npy.into_vec::<f32>().map(|all| all.into_iter().map(f64::from).collect()),
        _ => npy.into_vec::<f64>(),
    };
    let counts = counts.map_err(unreadable)?;
    match counts.iter().find(|count| !(**count >= 0.0 && count.fract() == 0.0)) {
        Some(count) => Err(wrong(format!("a count is {count}, which is no whole number from 0"))),
        None => Ok(counts),
    }
}
