//! The application's part of the plan: its flags, checked and complete.

use crate::args::Flags;
use crate::saved::{self, Settings};
use intendant_train::{DataSource, Plan, TestSource, TrainError, check_predictions};
use lda::data::{Corpus, Coverage, Format, Generator, HeldOut, Source};
use lda::{Config, WordCounts};
use std::path::{Path, PathBuf};

/// The application's flags, resolved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resolved {
    /// Hyperparameters.
    pub(crate) config: Config,
    /// The file for predictions.
    pub(crate) predict: Option<PathBuf>,
    documents: Origin,
}

/// The origin of documents.
#[derive(Clone, Debug, PartialEq)]
enum Origin {
    /// Documents to train on and to test on.
    Training(Source, HeldOut),
    /// Documents that test a model.
    Model { folder: PathBuf, settings: Settings, test: PathBuf, format: Format, vocabulary: Option<PathBuf> },
}

/// The documents that are trained on by default.
const BUILTIN: &str = "topics";

/// By default, one of this many documents is held out.
const HELD_OUT_EVERY: u64 = 10;

/// Hyperparameters of new models.
const TOPICS: usize = 20;
const ALPHA: f64 = 0.1;
const ETA: f64 = 0.01;

/// The value of a flag; it must equal the model's value if there is a model.
fn agreed<T: PartialEq + Copy + std::fmt::Display>(
    name: &str,
    flag: Option<T>,
    model: Option<T>,
    default: T,
) -> Result<T, TrainError> {
    match (flag, model) {
        (Some(flag), Some(model)) if flag != model => {
            let message =
                format!("--{name} is {flag} here and {model} in the model of --model: leave it out");
            Err(TrainError::usage(message))
        }
        (Some(value), _) | (None, Some(value)) => Ok(value),
        (None, None) => Ok(default),
    }
}

/// Which documents are held out.
fn held_out(plan: &Plan) -> Result<HeldOut, TrainError> {
    match &plan.test {
        None => Ok(HeldOut::Every(HELD_OUT_EVERY)),
        Some(TestSource::Fraction(part)) if *part > 0.5 => Err(TrainError::usage(format!(
            "--test is {part}; at most half of the documents can be held out: every second one"
        ))),
        Some(TestSource::Fraction(part)) => Ok(HeldOut::Every((1.0 / part).round() as u64)),
        Some(TestSource::File(path)) => Ok(HeldOut::File(path.clone())),
    }
}

/// Fills in the defaults that depend on other flags; records them, so that the effective configuration is
/// complete.
pub(crate) fn resolve(flags: &Flags, plan: &mut Plan) -> Result<Resolved, TrainError> {
    let settings =
        flags.model.as_deref().map(|folder| saved::settings(folder).map_err(of_model)).transpose()?;
    let model = settings.as_ref();
    let config = Config {
        topics: agreed("topics", flags.topics, model.map(|model| model.topics), TOPICS)?,
        alpha: agreed("alpha", flags.alpha, model.map(|model| model.alpha), ALPHA)?,
        eta: agreed("eta", flags.eta, model.map(|model| model.eta), ETA)?,
        batch: flags.batch,
        top_words: flags.top_words,
        seed: plan.seed,
    };
    config.check()?;
    if plan.config.get("clip-updates").is_some() {
        return Err(TrainError::usage("--clip-updates would make counts wrong: leave it out"));
    }
    plan.config.set("topics", config.topics as i64);
    plan.config.set("alpha", config.alpha);
    plan.config.set("eta", config.eta);
    let format = |path: &Path| flags.format.unwrap_or_else(|| Format::of(path));
    let documents = if let (Some(folder), Some(settings)) = (&flags.model, settings) {
        let Some(TestSource::File(test)) = &plan.test else {
            return Err(TrainError::usage("--model is tested on the documents of a file: add --test FILE"));
        };
        if plan.epochs > 0 {
            return Err(TrainError::usage(
                "--model is tested, not trained, as it has no assignments: add --epochs 0 (a training goes on by --resume)",
            ));
        }
        if flags.min_count.is_some() {
            return Err(TrainError::usage("--min-count has no effect with --model: leave it out"));
        }
        Origin::Model {
            folder: folder.clone(),
            settings,
            test: test.clone(),
            format: format(test),
            vocabulary: flags.vocab.clone(),
        }
    } else {
        let source = match plan.data_or(BUILTIN) {
            DataSource::Path(path) => {
                let format = format(&path);
                let min_count = flags.min_count.unwrap_or(format.min_count());
                plan.config.set("min-count", i64::try_from(min_count).unwrap_or(i64::MAX));
                let vocabulary = flags.vocab.clone();
                Source::File { path, format, vocabulary, min_count }
            }
            DataSource::Builtin(name) => generated(&name, flags)?,
        };
        Origin::Training(source, held_out(plan)?)
    };
    let vocabulary = match &documents {
        Origin::Training(Source::Generated(_), _) => None,
        Origin::Training(Source::File { format, .. }, _) | Origin::Model { format, .. } => Some(*format),
    };
    if flags.vocab.is_some() && vocabulary == Some(Format::Text) {
        return Err(TrainError::usage(
            "--vocab names the words of a bag of words, and the documents are text: leave it out, or add --format bag",
        ));
    }
    if let Some(path) = &flags.predict {
        check_predictions(path, plan, inputs(flags))?;
    }
    Ok(Resolved { config, predict: flags.predict.clone(), documents })
}

fn generated(name: &str, flags: &Flags) -> Result<Source, TrainError> {
    for (flag, given) in [
        ("--format", flags.format.is_some()),
        ("--vocab", flags.vocab.is_some()),
        ("--min-count", flags.min_count.is_some()),
    ] {
        if given {
            let message =
                format!("{flag} is about files of documents, and these are generated: leave it out");
            return Err(TrainError::usage(message));
        }
    }
    Generator::named(name).map(Source::Generated).map_err(TrainError::usage)
}

/// The files that the run reads, besides those of the common flags.
fn inputs(flags: &Flags) -> impl Iterator<Item = (&'static str, PathBuf)> {
    let of_model = |folder: &PathBuf| {
        let files = [saved::settings_path(folder), saved::words_path(folder), saved::counts_path(folder)];
        files.map(|file| ("--model", file))
    };
    let vocabulary = flags.vocab.iter().map(|path| ("--vocab", path.clone()));
    vocabulary.chain(flags.model.iter().flat_map(of_model))
}

fn of_model(error: saved::SavedError) -> TrainError {
    TrainError::usage(format!("--model: {error}"))
}

/// Reads or generates the documents that the flags name, and reads the model to test.
pub(crate) fn open(resolved: &Resolved, plan: &Plan) -> Result<(Corpus, Option<WordCounts>), TrainError> {
    let (corpus, counts) = match &resolved.documents {
        Origin::Training(source, held_out) => {
            (Corpus::open(source, held_out).map_err(TrainError::usage)?, None)
        }
        Origin::Model { folder, settings, test, format, vocabulary } => {
            let (words, counts) = saved::model(folder, settings).map_err(of_model)?;
            let corpus = Corpus::to_test(words, test, *format, vocabulary.as_deref());
            (corpus.map_err(TrainError::usage)?, Some(counts))
        }
    };
    if plan.rank() == 0 {
        let (training, test) = (corpus.training(), corpus.test());
        let (words, tokens, test_tokens) = (corpus.words().len(), training.tokens(), test.tokens());
        tracing::info!(documents = training.len(), tokens, words, test = test.len(), test_tokens, "data");
        tell_unknown("test documents", Coverage { known: test_tokens, unknown: corpus.unknown() });
    }
    Ok((corpus, counts))
}

/// Warns of tokens of documents that are no words of the model.
pub(crate) fn tell_unknown(documents: &str, Coverage { known, unknown }: Coverage) {
    if unknown > 0 {
        tracing::warn!(
            "{unknown} of {} words of the {documents} are not in the vocabulary, and left out",
            known + unknown
        );
    }
}
