//! `kge`: trains knowledge graph embeddings.
#![forbid(unsafe_code)]

mod args;
mod ask;
mod export;
mod help;
mod plan;
mod serve;
mod uses;

use args::Flags;
use export::Export;
use intendant_core::Element;
use intendant_train::{App, Application, Outcome, Plan, TrainError};
use kge::Kge;
use plan::Resolved;
use std::process::ExitCode;
use std::sync::Arc;

struct KgeApp;

impl Application for KgeApp {
    type Flags = Flags;
    type Resolved = Resolved;

    fn resolve(flags: Flags, plan: &mut Plan) -> Result<Resolved, TrainError> {
        plan::resolve(&flags, plan)
    }

    fn train<E: Element>(resolved: Resolved, plan: &Plan) -> Result<Outcome, TrainError> {
        let data = Arc::new(plan::open(&resolved, plan)?);
        let task = Arc::new(Kge::<E>::new(Arc::clone(&data), resolved.config).map_err(TrainError::usage)?);
        plan::tell_clusters(&task, plan);
        intendant_train::run(&task, plan, Some(&mut Export::new(data)))
    }
}

fn app() -> App {
    let command = clap::Command::new("kge").version(env!("CARGO_PKG_VERSION")).about(format!(
        "Trains knowledge graph embeddings ({}) and evaluates them by link prediction.\n\n\
         --data is builtin:codex-s (the default), builtin:synthetic:ENTITIESxRELATIONSxTRIPLES (a generated graph; \
         490598x573x3000000 has the shape of DBpedia-500k), builtin:skewed:ENTITIESxRELATIONSxTRIPLES (the same with \
         the skew of Wikidata5M: 4818679x828x20614279), a LibKGE folder (train.del, valid.del, test.del, \
         entity_ids.del, relation_ids.del), a folder with train, valid and test as .txt or .tsv (or .zst or .gz of these; lines \
         of subject, relation, object, separated by tabs), or a single such file.",
        help::titles(),
    ));
    let app = App::new(command).default("epochs", EPOCHS_DEFAULT).default("valid-every", VALID_EVERY_DEFAULT);
    uses::all().into_iter().fold(app, App::with)
}

/// More epochs hardly improve the validation quality on the built-in data.
const EPOCHS_DEFAULT: u32 = 30;

/// Ranking all entities for all held-out triples takes about a fifth of the time of an epoch.
const VALID_EVERY_DEFAULT: u32 = 5;

fn main() -> ExitCode {
    app().main::<KgeApp>()
}
