//! `intendant checkpoint show`.

use super::problems::{say, worst};
use super::source::Source;
use super::words::{counted, unfinished_lines};
use crate::stdout::print;
use intendant_checkpoint::{Checkpoint, CheckpointError, Manifest, Part, Range};
use intendant_train::{SavedRun, TrainError};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// The version of the output of `--json`.
const SCHEMA: &str = "intendant.checkpoints/1";

/// Settings that are shown; `--json` shows all.
const SETTINGS: [&str; 9] =
    ["technique", "nodes", "workers", "epochs", "seed", "float", "data", "dim", "keep"];

/// The output of `--json`.
#[derive(Serialize)]
struct Shown {
    schema: &'static str,
    /// The cut that `--resume` would use, if its sums are right.
    resume: Option<u64>,
    checkpoints: Vec<Entry>,
    /// Folders of cuts without a manifest.
    unfinished: Vec<String>,
}

#[derive(Serialize)]
struct Entry {
    path: String,
    /// Its problems, as far as they are known without reading the parts.
    problems: Vec<String>,
    /// Absent if the manifest cannot be read.
    #[serde(flatten)]
    content: Option<Content>,
}

#[derive(Serialize)]
struct Content {
    cut: u64,
    /// The cut with the best model of the run so far; absent if the run does not keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<u64>,
    /// The version of the checkpoint's format.
    format: String,
    element: String,
    keys: u64,
    bytes: u64,
    ranges: Vec<Range>,
    parts: Vec<Part>,
    /// Absent if no training program wrote it.
    run: Option<SavedRun>,
}

impl From<Manifest> for Content {
    fn from(manifest: Manifest) -> Self {
        let (keys, bytes, run) = (manifest.keys(), manifest.bytes(), SavedRun::of(&manifest).ok());
        let Manifest { schema: format, cut, best, element, ranges, parts, run: _ } = manifest;
        Self { cut, best, format, element, keys, bytes, ranges, parts, run }
    }
}

/// Prints what the checkpoints hold.
pub(super) fn run(dir: &Path, json: bool) -> Result<ExitCode, TrainError> {
    let source = Source::find(dir)?;
    let (mut codes, mut checkpoints) = (Vec::new(), Vec::new());
    // The behaviour of `--resume`: not known yet, a refusal, or the use of a cut.
    let (mut resume, mut refuses) = (None, false);
    for place in source.places()?.iter().rev() {
        let (content, wrong) = match Checkpoint::glance(place) {
            Ok((manifest, wrong)) => (Some(Content::from(manifest)), wrong),
            Err(error) => (None, vec![error]),
        };
        if wrong.is_empty() && !refuses && resume.is_none() {
            resume = content.as_ref().map(|content| content.cut);
        }
        refuses |=
            resume.is_none() && wrong.iter().any(|error| matches!(error, CheckpointError::Version { .. }));
        let problems = wrong.iter().map(ToString::to_string).collect();
        codes.extend(wrong.into_iter().map(|error| TrainError::from(error).exit_code()));
        checkpoints.push(Entry { path: place.display().to_string(), problems, content });
    }
    checkpoints.reverse();
    let unfinished = source.unfinished()?;
    let code = worst(codes);
    if json {
        let unfinished = unfinished.iter().map(|place| place.display().to_string()).collect();
        let shown = Shown { schema: SCHEMA, resume, checkpoints, unfinished };
        let text = serde_json::to_string_pretty(&shown).expect("it has no part that cannot be serialised");
        return Ok(print(&(text + "\n"), code));
    }
    let mut text = String::new();
    let cuts: Vec<u64> = checkpoints.iter().filter_map(|entry| Some(entry.content.as_ref()?.cut)).collect();
    for entry in &checkpoints {
        entry.describe(&cuts, &mut text);
        entry.problems.iter().for_each(say);
    }
    text.push_str(&unfinished_lines(&unfinished));
    text.push_str(&match (resume, refuses) {
        (Some(cut), _) => {
            format!("--resume uses cut {cut} if its sums are right (intendant checkpoint verify)\n")
        }
        (None, true) => "--resume refuses: a checkpoint is of a later version\n".to_owned(),
        (None, false) if checkpoints.is_empty() => {
            "--resume starts a new run: no cut was finished\n".to_owned()
        }
        (None, false) => "--resume refuses: no checkpoint can be used\n".to_owned(),
    });
    Ok(print(&text, code))
}

impl Entry {
    /// Describes it, among the `cuts` that are shown.
    fn describe(&self, cuts: &[u64], text: &mut String) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", self.path);
        let Some(content) = &self.content else {
            let _ = writeln!(text, "  its manifest cannot be read");
            return;
        };
        let Content { cut, best, format, element, keys, bytes, ranges, parts, run } = content;
        let _ = writeln!(text, "  format    {format}, cut {cut}");
        if let Some(best) = best {
            let _ = if best == cut {
                writeln!(text, "  best      it has the best model")
            } else {
                let gone = if cuts.contains(best) { "" } else { ", which is not here" };
                writeln!(text, "  best      the best model so far is in cut {best}{gone}")
            };
        }
        match run {
            None => {
                let _ = writeln!(text, "  run       not of a training program");
            }
            Some(run) => describe_run(run, text),
        }
        let _ = writeln!(text, "  model     {}, elements {element}", counted(*keys, "key"));
        for Range { name, keys, len } in ranges {
            let _ = writeln!(text, "    {name}: {} of length {len}", counted(*keys, "key"));
        }
        let _ = writeln!(text, "  parts     {} with {bytes} bytes", parts.len());
        for Part { file, bytes, keys, blocks } in parts {
            let sums = match blocks.as_slice() {
                [] => "no sums".to_owned(),
                [sum] => format!("XXH3 {sum}"),
                [first, .., last] => format!("XXH3 of {} blocks {first} to {last}", blocks.len()),
            };
            let _ = writeln!(text, "    {file}: {bytes} bytes, {}, {sums}", counted(*keys, "key"));
        }
    }
}

fn describe_run(run: &SavedRun, text: &mut String) {
    let SavedRun { program, version, task, data, data_digest: _, config, epochs, under_way, made } = run;
    let _ = writeln!(text, "  run       {program} {version}, task {task}, data {data}");
    let _ = write!(text, "  trained   {}", counted(*epochs as u64, "epoch"));
    if let Some(under_way) = under_way {
        let _ = write!(
            text,
            " and {} of epoch {}; {} of its subepoch {} left, divided among {} on {}",
            counted(under_way.examples, "example"),
            under_way.epoch + 1,
            counted(under_way.batches_left, "batch").replace("batchs", "batches"),
            under_way.subepoch + 1,
            counted(under_way.workers.into(), "worker"),
            counted(under_way.nodes.into(), "node"),
        );
    }
    text.push('\n');
    let setting = |name: &&str| {
        let value = config.get(*name)?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(format!("--{name} {value}"))
    };
    let settings: Vec<String> = SETTINGS.iter().filter_map(setting).collect();
    let _ = writeln!(text, "  settings  {}", settings.join(" "));
    let _ = writeln!(text, "  made      {}", counted(made.count, "checkpoint"));
}
