//! `mf`: factorises matrices of which some cells are known.
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
use mf::Mf;
use plan::Resolved;
use std::process::ExitCode;
use std::sync::Arc;

struct MfApp;

impl Application for MfApp {
    type Flags = Flags;
    type Resolved = Resolved;

    fn resolve(flags: Flags, plan: &mut Plan) -> Result<Resolved, TrainError> {
        plan::resolve(&flags, plan)
    }

    fn train<E: Element>(resolved: Resolved, plan: &Plan) -> Result<Outcome, TrainError> {
        let data = Arc::new(plan::open(&resolved, plan)?);
        let task = Arc::new(Mf::<E>::new(Arc::clone(&data), resolved.config).map_err(TrainError::usage)?);
        plan::tell(task.penalties(), plan);
        intendant_train::run(&task, plan, Some(&mut Export::new(data, task.config())))
    }
}

fn app() -> App {
    let command = clap::Command::new("mf").version(env!("CARGO_PKG_VERSION")).about(
        "Factorises a matrix of which some cells are known, and evaluates the factors on cells that were held out.\n\n\
         --data is a MatrixMarket file (coordinate; real, integer or pattern; general or symmetric), a table with row, column \
         and value on each line (separated by tabs, '::', commas, semicolons or blanks; further columns are ignored), either \
         of them compressed as .zst or .gz, or a generated matrix: builtin:zipf (the default), builtin:uniform, or one of these of \
         another size as in builtin:zipf:100000x10000x10000000 (rows, columns, entries).",
    );
    let app =
        App::new(command).default("epochs", EPOCHS_DEFAULT).default("localize-ahead", LOCALIZE_AHEAD_DEFAULT);
    uses::all().into_iter().fold(app, App::with)
}

/// Enough epochs for the built-in data.
const EPOCHS_DEFAULT: u32 = 20;

/// How many batches ahead a column is localized: enough to hide a relocation, and few enough that nodes
/// rarely need the same column at the same time, even if there are only some hundred columns.
const LOCALIZE_AHEAD_DEFAULT: u32 = 16;

fn main() -> ExitCode {
    app().main::<MfApp>()
}
