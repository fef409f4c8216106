//! `lda`: finds the topics of documents.
#![forbid(unsafe_code)]

mod args;
mod export;
mod plan;
mod saved;
mod uses;

use args::Flags;
use export::Export;
use intendant_core::Element;
use intendant_train::{App, Application, Outcome, Plan, TrainError, write_predictions};
use lda::Lda;
use plan::Resolved;
use std::process::ExitCode;
use std::sync::Arc;

struct LdaApp;

impl Application for LdaApp {
    type Flags = Flags;
    type Resolved = Resolved;

    fn resolve(flags: Flags, plan: &mut Plan) -> Result<Resolved, TrainError> {
        plan::resolve(&flags, plan)
    }

    fn train<E: Element>(resolved: Resolved, plan: &Plan) -> Result<Outcome, TrainError> {
        let (corpus, counts) = plan::open(&resolved, plan)?;
        let corpus = Arc::new(corpus);
        let task = Lda::<E>::new(Arc::clone(&corpus), resolved.config, counts).map_err(TrainError::usage)?;
        let task = Arc::new(if resolved.predict.is_some() { task.mixing() } else { task });
        let mut export = Export::new(Arc::clone(&corpus), task.config());
        let outcome = intendant_train::run(&task, plan, Some(&mut export))?;
        if let (Some(path), Some(mixtures)) = (&resolved.predict, task.take_mixtures()) {
            let test = corpus.test();
            write_predictions(path, |file| {
                let mut all = mixtures.iter().enumerate();
                all.try_for_each(|(at, mixture)| uses::mixture(file, test.name(at), mixture))
            })?;
        }
        if let Some(summary) = task.take_summary().filter(|_| task.config().top_words > 0) {
            intendant_train::print(|output| output.write_all(summary.table(corpus.words()).as_bytes()))?;
        }
        Ok(outcome)
    }
}

fn app() -> App {
    let command = clap::Command::new("lda").version(env!("CARGO_PKG_VERSION")).about(
        "Finds the topics of documents: latent Dirichlet allocation by collapsed Gibbs sampling, evaluated by the perplexity \
         of held-out documents.\n\n\
         --data is a UCI bag of words (docword.NAME.txt), a text with a document per line, either of them compressed as .zst or .gz, \
         or generated documents: builtin:topics (the default), or of another size as in builtin:topics:10000x5000x50 \
         (documents, words, topics). --test is the fraction of the documents that is held out, or a file of others.",
    );
    App::new(command)
        .default("epochs", EPOCHS_DEFAULT)
        .default("valid-every", VALID_EVERY_DEFAULT)
        .describe(
            "test",
            "FRACTION|FILE",
            "Fraction of the documents to hold out, or a file of documents: 0.1 is every 10th one, from the first on [default: 0.1]",
        )
        .with(uses::transform())
        .with(uses::topics())
        .with(uses::evaluate())
}

/// Passes over the documents: enough for the built-in data.
const EPOCHS_DEFAULT: u32 = 100;

/// Inferring the topics of test documents takes as long as some passes over the training documents.
const VALID_EVERY_DEFAULT: u32 = 10;

fn main() -> ExitCode {
    app().main::<LdaApp>()
}
