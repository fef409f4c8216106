//! `bpmf`: samples factorisations of matrices of which some cells are known.
#![forbid(unsafe_code)]

mod args;
mod chain;
mod exchange;
mod items;
mod link;
mod plan;
mod results;
mod simulated;

use args::Flags;
use chain::Chain;
use intendant_core::Element;
use intendant_train::{App, Application, Outcome, Plan, TrainError};
use plan::Resolved;
use simulated::SimulatedChain;
use std::process::ExitCode;

struct BpmfApp;

impl Application for BpmfApp {
    type Flags = Flags;
    type Resolved = Resolved;

    fn resolve(flags: Flags, plan: &mut Plan) -> Result<Resolved, TrainError> {
        plan::resolve(&flags, plan)
    }

    fn train<E: Element>(resolved: Resolved, plan: &Plan) -> Result<Outcome, TrainError> {
        let data = plan::open(&resolved, plan)?;
        let resolved = plan::with_precision(resolved, &data, plan);
        let interval = resolved.config.interval;
        let outcome = if let Some(simulation) = &plan.simulation {
            let mut chain = SimulatedChain::new(data, resolved, plan, simulation)?;
            let about = chain.about();
            intendant_train::run_program(&mut chain, &about, plan)
        } else {
            let mut chain = Chain::new(data, resolved, plan)?;
            let about = chain.about();
            intendant_train::run_program(&mut chain, &about, plan)
        }?;
        plan::check_coverage(&outcome.report.test, interval, plan);
        Ok(outcome)
    }
}

fn app() -> App {
    let command = clap::Command::new("bpmf").version(env!("CARGO_PKG_VERSION")).about(
        "Factorises a matrix of which some cells are known by Gibbs sampling, and predicts cells that were held out, with \
         intervals.\n\n\
         --data is a MatrixMarket file (coordinate; real, integer or pattern; general or symmetric), a table with row, column \
         and value on each line (separated by tabs, '::', commas, semicolons or blanks; further columns are ignored), either \
         of them compressed as .zst or .gz, or a generated matrix: builtin:zipf (the default), builtin:uniform, or one of these of \
         another size as in builtin:zipf:100000x10000x10000000 (rows, columns, entries).",
    );
    App::new(command)
        .without_server()
        .default("epochs", EPOCHS_DEFAULT)
        .default("net", "56gib")
        .describe("epochs", "E", "Iterations of the chain")
        .describe(
            "valid_every",
            "E",
            "Measure the quality on the validation data after every so many iterations; 0 means never",
        )
        .describe(
            "from",
            "DIR",
            "Begin with the rows and columns of a checkpoint of another chain, instead of initial ones: its last sample",
        )
        .describe(
            "net",
            "NAME|FILE.toml",
            "Network of the simulated cluster: 10gbe, 100gib, 56gib, or a file with the same fields (docs/experiments.md)",
        )
        .describe(
            "operation_keys",
            "COUNT",
            "Have at most COUNT gets of rows on the way, as programs do that wait for each of them [default: 64]",
        )
}

/// Number of iterations, a third of which is burn-in: enough for the built-in data and for sets of some ten
/// thousand entries.
const EPOCHS_DEFAULT: u32 = 120;

fn main() -> ExitCode {
    app().main::<BpmfApp>()
}
