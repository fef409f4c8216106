//! `word2vec`: learns word vectors from text.
#![forbid(unsafe_code)]

mod args;
mod ask;
mod export;
mod plan;
mod serve;
mod uses;

use args::Flags;
use export::Export;
use intendant_core::Element;
use intendant_train::{App, Application, Outcome, Plan, TrainError};
use plan::Resolved;
use std::process::ExitCode;
use std::sync::Arc;
use word2vec::Word2vec;

struct Word2vecApp;

impl Application for Word2vecApp {
    type Flags = Flags;
    type Resolved = Resolved;

    fn resolve(flags: Flags, plan: &mut Plan) -> Result<Resolved, TrainError> {
        plan::resolve(&flags, plan)
    }

    fn train<E: Element>(resolved: Resolved, plan: &Plan) -> Result<Outcome, TrainError> {
        let (corpus, tests) = plan::open(&resolved, plan)?;
        let corpus = Arc::new(corpus);
        let task = Arc::new(Word2vec::<E>::new(Arc::clone(&corpus), resolved.config, tests)?);
        plan::check(&task, plan)?;
        let mut export = Export::new(Arc::clone(&corpus), task.config().dim);
        let trained = intendant_train::run(&task, plan, Some(&mut export));
        // A text that can no longer be read makes the run diverge; reporting the cause is more helpful.
        plan::readable(&corpus).and(trained)
    }
}

fn app() -> App {
    let command = clap::Command::new("word2vec").version(env!("CARGO_PKG_VERSION")).about(
        "Learns word vectors from text: skip-gram with negative sampling.\n\n\
         --data is a text file of words between blanks, in which a line is a sentence, a paragraph or an article (or one that is \
         compressed as .zst or .gz), builtin:wiki (the default: articles of English Wikipedia), or \
         builtin:topics:WORDSxTOKENS (a generated text; 200000x1000000 has 200,000 words, which occur a million times \
         together) or builtin:english:WORDSxTOKENS (the same with the frequencies of English without stop words). --test is the fraction of the text that is held out.",
    );
    let app = App::new(command).default("epochs", EPOCHS_DEFAULT).describe(
        "test",
        "FRACTION",
        "Fraction of the text to hold out [default: 0.01, up to 500,000 words; built-in texts: 0.05]",
    );
    uses::all().into_iter().fold(app, App::with)
}

/// Epochs of the original program.
const EPOCHS_DEFAULT: u32 = 5;

fn main() -> ExitCode {
    app().main::<Word2vecApp>()
}
