//! The application's part of the plan: its flags, checked and complete.

use crate::args::Flags;
use intendant_core::Element;
use intendant_train::{DataSource, Plan, TestSource, TrainError};
use std::path::PathBuf;
use word2vec::data::{Corpus, Options};
use word2vec::{Config, Optimizer, Similarities, Tests, Word2vec, read_analogies, read_similarities};

/// The application's flags, resolved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resolved {
    /// Hyperparameters.
    pub(crate) config: Config,
    /// How text becomes a corpus.
    options: Options,
    analogies: Option<(PathBuf, u32)>,
    similarity: Option<PathBuf>,
}

/// The text that is trained on by default.
const BUILTIN: &str = "wiki";

/// The name of the similarities that a generated text provides.
const TOPICS: &str = "builtin:topics";

/// Fills in the defaults that depend on other flags; records them, so that the effective configuration is
/// complete.
pub(crate) fn resolve(flags: &Flags, plan: &mut Plan) -> Result<Resolved, TrainError> {
    let rate = match flags.optimizer {
        Optimizer::Sgd => 0.025,
        Optimizer::AdaGrad => 0.05,
    };
    let config = Config {
        dim: flags.dim,
        window: flags.window,
        negatives: flags.negatives,
        sample: flags.sample,
        power: flags.power,
        optimizer: flags.optimizer,
        learning_rate: flags.lr.unwrap_or(rate),
        batch_words: flags.batch_words,
        separate: flags.separate,
        epochs: plan.epochs,
        seed: plan.seed,
    };
    config.check()?;
    plan.config.set("lr", config.learning_rate);
    let held_out = match &plan.test {
        None => None,
        Some(TestSource::Fraction(fraction)) => Some(*fraction),
        Some(TestSource::File(file)) => {
            return Err(TrainError::usage(format!(
                "--test is {}; it must be the fraction of the text to hold out, such as 0.01 (files to test on are named by \
                 --analogies and --similarity)",
                file.display()
            )));
        }
    };
    let options = Options {
        piece_words_max: flags.sentence_words,
        min_count: flags.min_count,
        held_out,
        memory: flags.text_memory << 20,
    };
    let analogies = flags.analogies.clone().map(|file| (file, flags.analogies_words));
    Ok(Resolved { config, options, analogies, similarity: flags.similarity.clone() })
}

/// Reads or generates the text that the common flags name, and reads the files with questions.
pub(crate) fn open(resolved: &Resolved, plan: &Plan) -> Result<(Corpus, Tests), TrainError> {
    let corpus = match plan.data_or(BUILTIN) {
        DataSource::Builtin(name) => Corpus::builtin(&name, resolved.options),
        DataSource::Path(path) => Corpus::open(&path, resolved.options),
    };
    let corpus = corpus.map_err(TrainError::usage)?;
    let vocabulary = corpus.vocabulary();
    let analogies = resolved.analogies.as_ref().map(|(file, words)| read_analogies(file, vocabulary, *words));
    let similarities = resolved.similarity.as_ref().map(|file| {
        if file.as_os_str() != TOPICS {
            return read_similarities(file, vocabulary).map_err(TrainError::usage);
        }
        Similarities::of_topics(&corpus).ok_or_else(|| {
            let data =
                "--similarity builtin:topics needs a generated text, --data builtin:topics:WORDSxTOKENS";
            TrainError::usage(data.to_owned())
        })
    });
    let tests = Tests {
        analogies: analogies.transpose().map_err(TrainError::usage)?,
        similarities: similarities.transpose()?,
    };
    if plan.rank() == 0 {
        let (words, training) = (corpus.words(), corpus.training_words());
        tracing::info!(words, held_out = words - training, vocabulary = vocabulary.len(), "data");
        if let Some(analogies) = tests.analogies.as_ref().filter(|analogies| analogies.questions.is_empty()) {
            let skipped: usize = analogies.sections.iter().map(|section| section.skipped).sum();
            tracing::warn!(
                "no analogy can be tested: {skipped} have words that are not among the most frequent ones"
            );
        }
        if let Some(similarities) = tests.similarities.as_ref().filter(|tests| tests.rated.is_empty()) {
            tracing::warn!(
                "no similarity can be tested: {} pairs have words that are not in the vocabulary",
                similarities.skipped
            );
        }
    }
    Ok((corpus, tests))
}

/// A share of skipped words that is worth a warning.
const SKIPPED_MANY: f64 = 0.95;

/// Refuses a text that has nothing to learn; warns if most words are skipped.
pub(crate) fn check<E: Element>(task: &Word2vec<E>, plan: &Plan) -> Result<(), TrainError> {
    if plan.epochs == 0 {
        return Ok(());
    }
    let sample = task.config().sample;
    if !task.has_pairs() {
        readable(task.corpus())?;
        return Err(TrainError::usage(format!(
            "there is nothing to learn from: no line of the text has two words that are trained (those that occur less than \
             --min-count times are left out, and --sample {sample} skips frequent ones at random); give whole sentences a \
             line, lower --min-count, or skip none with --sample 0"
        )));
    }
    let skipped = 1.0 - task.kept_part();
    if plan.rank() == 0 && skipped > SKIPPED_MANY {
        tracing::warn!(
            "--sample {sample} skips {:.1} % of all words; a larger one, or 0, keeps more",
            100.0 * skipped
        );
    }
    Ok(())
}

/// An error if the text could not be read to its end.
pub(crate) fn readable(corpus: &Corpus) -> Result<(), TrainError> {
    corpus.failure().map_or(Ok(()), |failure| Err(TrainError::usage(failure.to_string())))
}
