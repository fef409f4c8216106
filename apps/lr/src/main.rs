//! `lr`: learns to classify rows of sparse features.
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
use lr::Lr;
use plan::Resolved;
use std::process::ExitCode;
use std::sync::Arc;

struct LrApp;

impl Application for LrApp {
    type Flags = Flags;
    type Resolved = Resolved;

    fn resolve(flags: Flags, plan: &mut Plan) -> Result<Resolved, TrainError> {
        plan::resolve(&flags, plan)
    }

    fn train<E: Element>(resolved: Resolved, plan: &Plan) -> Result<Outcome, TrainError> {
        let (data, weights) = plan::open(&resolved, plan)?;
        let data = Arc::new(data);
        let task = Lr::<E>::new(Arc::clone(&data), resolved.config.clone(), weights);
        let task = Arc::new(task.map_err(TrainError::usage)?);
        let settings = resolved.settings(&data);
        let outcome =
            intendant_train::run(&task, plan, Some(&mut Export::new(Arc::clone(&task), data, settings)))?;
        if let (Some(path), Some(probabilities)) = (&resolved.predict, task.take_predictions()) {
            write_predictions(path, |file| {
                probabilities.iter().try_for_each(|probability| writeln!(file, "{probability}"))
            })?;
        }
        Ok(outcome)
    }
}

fn app() -> App {
    let command = clap::Command::new("lr").version(env!("CARGO_PKG_VERSION")).about(
        "Learns to predict labels of rows of sparse features by logistic regression, and evaluates the probabilities that it \
         predicts.\n\n\
         --data is a file in libsvm's format (LABEL INDEX:VALUE …; labels 1 and 0, or 1 and -1; indices from 1), a table \
         (columns separated by tabs, commas or semicolons; features are hashed), either of them compressed as .zst or .gz, or \
         generated rows: builtin:sparse (the default), or of another size as in builtin:sparse:100000x50000x30 (rows, features, \
         features of a row).\n\n\
         The objective is a sum over rows, not a mean: Σ log-loss + l1 · ‖w‖₁ + l2 / 2 · ‖w‖². With --c C, l1 = 1 / C, as in \
         liblinear.",
    );
    App::new(command).default("epochs", EPOCHS_DEFAULT).with(uses::predict()).with(uses::evaluate())
}

/// Enough epochs for the built-in data.
const EPOCHS_DEFAULT: u32 = 20;

fn main() -> ExitCode {
    app().main::<LrApp>()
}
