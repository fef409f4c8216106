//! `intendant trace`: shows, merges and compares traces.

mod allocation;
mod args;
mod compare;
mod failure;
mod json;
mod key;
mod open;
mod output;
mod picture;
mod summary;
mod words;

pub(crate) use args::TraceArgs;

use crate::stdout::print;
use args::Command;
use failure::Failure;
use open::open;
use std::path::Path;
use std::process::ExitCode;

/// Runs one of the commands.
pub(crate) fn run(args: TraceArgs) -> ExitCode {
    let text = match args.command {
        Command::Merge { run, out, limits } => merge(&run, &out, limits.max_events),
        Command::Summary { run, view, top, json } => summary::run(&run, &view, top, json),
        Command::Allocation { run, view, moments, rows, picture, json } => {
            allocation::run(&run, &view, moments, rows, &picture, json)
        }
        Command::Affinity { run, view, top, svg, json } => {
            allocation::affinity(&run, &view, top, svg.as_deref(), json)
        }
        Command::Key { run, key, top, picture, limits, json } => {
            key::run(&run, key, top, &picture, limits.max_events, json)
        }
        Command::Compare { a, b, view, rows, picture, json } => {
            compare::run([&a, &b], &view, rows, &picture, json)
        }
    };
    match text {
        Ok(text) => print(&text, 0),
        Err(failure) => {
            // The reason may quote text from a file.
            eprintln!("intendant: {}", words::shown(&failure.to_string()));
            ExitCode::from(failure.exit_code())
        }
    }
}

fn merge(path: &Path, out: &Path, events_max: u64) -> Result<String, Failure> {
    if out.is_dir() {
        return Err(Failure::Usage(format!("{} is a folder; name the file to write", out.display())));
    }
    let part = output::part_of(out);
    output::refuse_inputs(&[path], &[out, &part])?;
    let run = open(path, events_max)?;
    run.write_parquet(out)?;
    let mut text = format!("{}: {}\n", out.display(), words::counted(run.len() as u64, "event"));
    text += &words::clocks(run.nodes(), run.alignment());
    Ok(text)
}
