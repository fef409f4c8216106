//! `intendant trace`: looks into traces, merges and compares them.

mod allocation;
mod args;
mod compare;
mod key;
mod output;
mod summary;
mod words;

pub(crate) use args::TraceArgs;

use args::{Command, PictureArgs, ViewArgs};
use intendant_analysis::{Allocation, AnalysisError, Limits, Run, Window};
use intendant_trace::Filter;
use intendant_train::exit;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    Analysis(AnalysisError),
    /// A picture cannot be written.
    Picture(PathBuf, std::io::Error),
    /// The user asked for something that cannot be.
    Usage(String),
}

impl From<AnalysisError> for Failure {
    fn from(error: AnalysisError) -> Self {
        Self::Analysis(error)
    }
}

impl Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Analysis(error) if error.is_damage() => exit::DAMAGED,
            Self::Analysis(error) if error.is_usage() => exit::USAGE,
            Self::Analysis(_) | Self::Picture(..) => exit::OTHER,
            Self::Usage(_) => exit::USAGE,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Analysis(error) => error.fmt(f),
            Self::Picture(path, error) => write!(f, "cannot write {}: {error}", path.display()),
            Self::Usage(reason) => f.write_str(reason),
        }
    }
}

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
        Ok(text) => crate::checkpoint::print(&text, 0),
        Err(failure) => {
            // The reason may repeat what a file says.
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

/// Opens a run, and says what is not as it should be.
fn open(path: &Path, events_max: u64) -> Result<Run, Failure> {
    let run = Run::open(path, Limits { events_max })?;
    for problem in run.problems() {
        let node = problem.node.map_or(String::new(), |node| format!("node {node}: "));
        eprintln!("intendant: {}: {node}{}", path.display(), words::shown(&problem.text));
    }
    Ok(run)
}

/// Where the keys of a run were.
fn allocation_of(path: &Path, view: &ViewArgs) -> Result<Allocation, Failure> {
    let run = open(path, view.limits.max_events)?;
    let allocation = Allocation::of(&Arc::new(run), &view.keys);
    let header = allocation.run().header();
    let traced = format!(
        "the run has {} and traced {}",
        words::counted(header.keys(), "key"),
        words::shown(&header.filter)
    );
    if allocation.keys().is_empty() && view.keys != Filter::All {
        return Err(Failure::Usage(format!("none of the keys {} was traced: {traced}", view.keys)));
    }
    if let Filter::Keys(ranges) = &view.keys {
        let named: u64 = ranges.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
        let missing = named.saturating_sub(allocation.keys().len());
        if missing > 0 {
            eprintln!(
                "intendant: {}: {} of {} named by --keys: not traced; {traced}",
                path.display(),
                words::grouped(missing),
                words::counted(named, "key")
            );
        }
    }
    say_inconsistencies(path, &allocation);
    Ok(allocation)
}

fn say_inconsistencies(path: &Path, allocation: &Allocation) {
    let missing = allocation.inconsistencies().missing();
    if missing > 0 {
        eprintln!(
            "intendant: {}: {} not fit to what was known of the key: others are missing",
            path.display(),
            if missing == 1 { "1 event does".to_owned() } else { format!("{missing} events do") }
        );
    }
}

/// What a picture of a run shows.
fn window(allocation: &Allocation, picture: &PictureArgs) -> Result<Window, Failure> {
    let (first, last) = allocation.run().span_us();
    let (from, to) = (picture.from.unwrap_or(first), picture.to.unwrap_or(last));
    if from > to {
        let [from, to] = [from, to].map(|us| us as f64 / 1e6);
        return Err(Failure::Usage(format!(
            "the time from {from} s to {to} s is empty; --to must not be before --from"
        )));
    }
    Ok(Window::new(from, to, picture.width))
}

/// Writes a picture of runs.
fn write_picture(path: &Path, picture: &str, runs: &[&Path]) -> Result<(), Failure> {
    output::refuse_inputs(runs, &[path])?;
    fs::write(path, picture).map_err(|error| Failure::Picture(path.to_owned(), error))
}

/// The text of `--json`: a schema, and what follows from it.
fn json(schema: &'static str, content: impl Serialize) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct Document<T> {
        schema: &'static str,
        #[serde(flatten)]
        content: T,
    }
    let text = serde_json::to_string_pretty(&Document { schema, content });
    let text = text.map_err(|error| Failure::Usage(error.to_string()))?;
    // Letters beyond ASCII are within strings only, where JSON has an escape for each of them.
    let is_shown = |letter: char| matches!(letter, ' '..='~' | '\n') || !words::is_control(letter);
    let escaped = |letter: char| {
        if is_shown(letter) { letter.to_string() } else { format!("\\u{:04x}", u32::from(letter)) }
    };
    Ok(text.chars().map(escaped).chain(["\n".to_owned()]).collect())
}
