//! `word2vec`: learns word vectors from text.
#![forbid(unsafe_code)]

mod args;
mod export;
mod plan;

use args::Flags;
use export::Export;
use intendant_core::{Element, ElementType};
use intendant_train::{App, Exporter, Outcome, Plan, TrainError};
use plan::Resolved;
use std::process::ExitCode;
use std::sync::Arc;
use word2vec::Word2vec;

fn train<E: Element>(resolved: Resolved, plan: &Plan) -> Result<Outcome, TrainError> {
    let (corpus, tests) = plan::open(&resolved, plan)?;
    let corpus = Arc::new(corpus);
    let task = Word2vec::<E>::new(Arc::clone(&corpus), resolved.config, tests);
    let task = Arc::new(task.map_err(|error| TrainError::usage(format!("--{error}")))?);
    plan::check(&task, plan)?;
    let mut export = match &plan.export {
        // Only rank 0 writes.
        Some(folder) if plan.rank() == 0 => {
            Some(Export::create(folder, Arc::clone(&corpus), task.config().dim).map_err(TrainError::usage)?)
        }
        _ => None,
    };
    let exporter = export.as_mut().map(|export| export as &mut dyn Exporter<E>);
    let trained = intendant_train::run(&task, plan, exporter);
    // A text that cannot be read any more ends the run as divergence does; what it was is more helpful.
    plan::readable(&corpus).and(trained)
}

fn app() -> App {
    let command = clap::Command::new("word2vec").version(env!("CARGO_PKG_VERSION")).about(
        "Learns word vectors from text: skip-gram with negative sampling.\n\n\
         --data is a text file of words between blanks, in which a line is a sentence, a paragraph or an article (or one that is \
         compressed as .zst), builtin:wiki (the default: articles of English Wikipedia), or \
         builtin:topics:WORDSxTOKENS (a generated text; 200000x1000000 has 200,000 words, which occur a million times \
         together). --test is the fraction of the text that is held out.",
    );
    App::new(command).default("epochs", EPOCHS_DEFAULT)
}

/// As in the original program.
const EPOCHS_DEFAULT: u32 = 5;

fn main() -> ExitCode {
    app().main(
        |flags: Flags, plan| plan::resolve(&flags, plan),
        |resolved, plan| match plan.float {
            ElementType::F32 => train::<f32>(resolved, plan),
            ElementType::F64 => train::<f64>(resolved, plan),
        },
    )
}
