//! Commands that use a trained model: `intendant lda transform`, `intendant lda topics` and `intendant lda
//! evaluate`.

use crate::plan::tell_unknown;
use crate::saved::{self, SavedError, Settings};
use clap::Args;
use intendant_formats::Names;
use intendant_train::{TrainError, Use, measure_initial, print};
use intendant_trained::{answer_while_reading, input, json_line, measures};
use lda::data::{Corpus, Coverage, Format, known};
use lda::{Config, Lda, Trained, WordCounts};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) fn transform() -> Use {
    Use::new("transform", "The proportions of topics in documents", |args: TransformArgs| args.run())
}

pub(crate) fn topics() -> Use {
    Use::new("topics", "The most frequent words of each topic", |args: TopicsArgs| args.run())
}

pub(crate) fn evaluate() -> Use {
    Use::new("evaluate", "The perplexity of documents", |args: EvaluateArgs| args.run())
}

// How documents are read. (Not a documentation comment: it would become the description of the command.)
#[derive(Args, Clone, Debug)]
struct Reading {
    /// Format of the documents: bag (UCI bag of words) or text (a document per line) [default: bag if the
    /// name starts with docword., else text]
    #[arg(long, value_name = "NAME", value_enum)]
    format: Option<Format>,

    /// Words of a bag of words, one per line; without, words are called by their numbers
    #[arg(long, value_name = "FILE")]
    vocab: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
struct TransformArgs {
    /// Folder that --export wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Documents [default: standard input, as '-']
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    reading: Reading,

    /// Print a JSON object per document
    #[arg(long)]
    json: bool,
}

#[derive(Args, Clone, Debug)]
struct TopicsArgs {
    /// Folder that --export wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Words of each topic
    #[arg(short = 'n', long, value_name = "WORDS", default_value_t = 10)]
    words: usize,

    /// Print a JSON object per topic instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Args, Clone, Debug)]
struct EvaluateArgs {
    /// Folder that --export wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Documents
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    reading: Reading,

    /// Print a JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Reads a model.
fn open(folder: &Path) -> Result<(Config, Names, WordCounts), TrainError> {
    let read = || -> Result<_, SavedError> {
        let settings = saved::settings(folder)?;
        let (words, counts) = saved::model(folder, &settings)?;
        Ok((settings, words, counts))
    };
    let (Settings { topics, alpha, eta, .. }, words, counts) = read().map_err(TrainError::usage)?;
    let config = Config { topics, alpha, eta, batch: 1, top_words: 0, seed: 0 };
    config.check().map_err(|error| TrainError::usage(format!("{}: {error}", folder.display())))?;
    Ok((config, words, counts))
}

impl Reading {
    /// The format of the documents in a file.
    fn format(&self, file: Option<&Path>) -> Result<Format, TrainError> {
        let format = self.format.unwrap_or_else(|| file.map_or(Format::Text, Format::of));
        if self.vocab.is_some() && format == Format::Text {
            return Err(TrainError::usage(
                "--vocab names the words of a bag of words, and the documents are text: leave it out, or add --format bag",
            ));
        }
        Ok(format)
    }
}

/// Writes a line for a document: its name, and the proportions of its topics.
pub(crate) fn mixture(out: &mut dyn Write, document: u64, mixture: &[f64]) -> io::Result<()> {
    write!(out, "{document}")?;
    mixture.iter().try_for_each(|part| write!(out, "\t{part:.6}"))?;
    writeln!(out)
}

impl TransformArgs {
    fn run(self) -> Result<(), TrainError> {
        let format = self.reading.format(self.file.as_deref())?;
        let (config, words, counts) = open(&self.model)?;
        let model = Trained::new(words, counts, config.topics, config.eta);
        let mut mixer = model.mixer(config.alpha);
        let (file, text) = input(self.file.as_deref()).map_err(TrainError::usage)?;
        let (mut read, mut coverage) = (Ok(()), Coverage::default());
        print(|out| {
            read = answer_while_reading(out, |answers| {
                let of_documents = (format, self.reading.vocab.as_deref());
                coverage = known(model.words(), (&file, text), of_documents, |name, document| {
                    let topics = mixer.mixture(document);
                    answers.write(|out| {
                        if self.json {
                            json_line(out, &[], [("document", json!(name)), ("topics", json!(topics))])
                        } else {
                            mixture(out, name, &topics)
                        }
                    })
                })?;
                Ok(())
            })?;
            Ok(())
        })?;
        tell_unknown("documents", coverage);
        read.map_err(|error: lda::data::DataError| TrainError::usage(error))
    }
}

impl TopicsArgs {
    fn run(self) -> Result<(), TrainError> {
        let (config, words, counts) = open(&self.model)?;
        let model = Trained::new(words, counts, config.topics, config.eta);
        let summary = model.summary(self.words);
        let name = |word: u32| model.words().get(word as usize).unwrap_or_default();
        print(|out| {
            if !self.json {
                return out.write_all(summary.table(model.words()).as_bytes());
            }
            (1..).zip(summary.topics()).try_for_each(|(number, topic)| {
                let words = topic.words.iter().map(|(word, tokens)| {
                    let probability = summary.probability(topic, *tokens);
                    json!({ "word": name(*word), "tokens": tokens, "probability": probability })
                });
                let said = [
                    ("topic", json!(number)),
                    ("tokens", json!(topic.tokens)),
                    ("share", json!(summary.share(topic))),
                    ("words", Value::Array(words.collect())),
                ];
                json_line(out, &[], said)
            })
        })
    }
}

impl EvaluateArgs {
    fn run(self) -> Result<(), TrainError> {
        let format = self.reading.format(Some(&self.file))?;
        let (config, words, counts) = open(&self.model)?;
        let corpus = Corpus::to_test(words, &self.file, format, self.reading.vocab.as_deref());
        let corpus = corpus.map_err(TrainError::usage)?;
        tell_unknown("documents", Coverage { known: corpus.test().tokens(), unknown: corpus.unknown() });
        let task = Lda::<f64>::new(Arc::new(corpus), config, Some(counts)).map_err(TrainError::usage)?;
        let measured = measure_initial(&task);
        if measured.is_empty() {
            let file = self.file.display();
            return Err(TrainError::usage(format!(
                "{file}: no document has two words of the model, one of which predicts the other"
            )));
        }
        print(|out| measures(out, self.json, &measured))
    }
}
