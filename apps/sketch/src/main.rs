//! `sketch`: counts streams in little memory.
#![forbid(unsafe_code)]

mod args;
mod export;
mod plan;
mod uses;

use args::Flags;
use export::Export;
use intendant_core::Element;
use intendant_train::{App, Application, Outcome, Plan, TrainError};
use plan::Resolved;
use sketch::{Counting, CountingError, Results};
use std::process::ExitCode;
use std::sync::Arc;

struct SketchApp;

impl Application for SketchApp {
    type Flags = Flags;
    type Resolved = Resolved;

    fn resolve(flags: Flags, plan: &mut Plan) -> Result<Resolved, TrainError> {
        plan::resolve(&flags, plan)
    }

    fn train<E: Element>(resolved: Resolved, plan: &Plan) -> Result<Outcome, TrainError> {
        let (stream, query, base) = plan::open(&resolved, plan)?;
        let has_query = query.is_some();
        let task = Counting::<E>::new(resolved.config, stream, query, base);
        let task = Arc::new(task.map_err(|error: CountingError| TrainError::usage(error))?);
        let counted = intendant_train::run(&task, plan, Some(&mut Export::new(Arc::clone(&task))));
        // A stream that cannot be read makes the run diverge; reporting the cause is more helpful.
        if let Some(failure) = task.failure() {
            return Err(TrainError::usage(failure.to_string()));
        }
        let outcome = counted?;
        if outcome.rank == 0 {
            print(&task.results(), task.config().top > 0, has_query)?;
        }
        Ok(outcome)
    }
}

/// Prints the answers of the sketch, after the table of results.
fn print(results: &Results, has_top: bool, has_query: bool) -> Result<(), TrainError> {
    intendant_train::print(|output| {
        for (title, items, wanted) in [("top", &results.top, has_top), ("query", &results.query, has_query)] {
            if wanted {
                writeln!(output, "\n{title}")?;
                export::lines(items, output)?;
            }
        }
        Ok(())
    })
}

fn app() -> App {
    let command = clap::Command::new("sketch").version(env!("CARGO_PKG_VERSION")).about(
        "Counts the items of a stream in a sketch: CountMin, whose estimates are never below the truth, or count-sketch, whose \
         estimates are right on average.\n\n\
         --data is a text file of words between blanks (--items lines: of one item per line; --items integers: of one integer per \
         line), or one that is compressed as .zst or .gz, or builtin:zipf (the default: a million integers that follow Zipf's law), also \
         of another size as in builtin:zipf:1000000x50000 (items, distinct items) or builtin:zipf:1000000x50000x1.3 (and the \
         exponent). An epoch is a pass over the stream.",
    );
    App::new(command)
        .default("epochs", 1)
        .default("float", "f64")
        .default("look-ahead", LOOK_AHEAD)
        .describe("seed", "S", "Seed of the hash functions")
        .describe("data", "PATH|builtin:NAME", "The stream to count")
        .describe("export", "DIR", "Write the sketch to this folder, which is replaced as a whole")
        .with(uses::query())
}

/// Batches that loaders prepare ahead. A batch holds an amount for each cell of the blocks that it touches,
/// and it touches most blocks. More batches would take much memory and give techniques no new information.
const LOOK_AHEAD: u32 = 16;

fn main() -> ExitCode {
    app().main::<SketchApp>()
}
