//! `lda`: finds the topics of documents.
#![forbid(unsafe_code)]

mod args;
mod export;
mod plan;
mod predict;
mod saved;

use args::Flags;
use export::Export;
use intendant_core::Element;
use intendant_train::{App, Application, Outcome, PathDisplay, Plan, TrainError};
use lda::Lda;
use plan::Resolved;
use std::io::{ErrorKind, Write};
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
            predict::write(path, corpus.test(), &mixtures)?;
        }
        if let Some(summary) = task.take_summary().filter(|_| task.config().top_words > 0) {
            print(&summary.table(corpus.words()))?;
        }
        Ok(outcome)
    }
}

/// Prints the topics. If the reader has closed standard output, it has read what it needed.
fn print(table: &str) -> Result<(), TrainError> {
    let mut output = std::io::stdout().lock();
    match output.write_all(table.as_bytes()).and_then(|()| output.flush()) {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => {
            Err(TrainError::Write { path: PathDisplay("standard output".into()), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn app() -> App {
    let command = clap::Command::new("lda").version(env!("CARGO_PKG_VERSION")).about(
        "Finds the topics of documents: latent Dirichlet allocation by collapsed Gibbs sampling, evaluated by the perplexity \
         of held-out documents.\n\n\
         --data is a UCI bag of words (docword.NAME.txt), a text with a document per line, either of them compressed as .zst, \
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
}

/// Passes over the documents: enough for the built-in data.
const EPOCHS_DEFAULT: u32 = 100;

/// Inferring the topics of test documents takes as long as some passes over the training documents.
const VALID_EVERY_DEFAULT: u32 = 10;

fn main() -> ExitCode {
    app().main::<LdaApp>()
}
