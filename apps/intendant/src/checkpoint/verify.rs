//! `intendant checkpoint verify`.

use super::problems::{say, worst};
use super::source::Source;
use super::words::{counted, unfinished_lines};
use crate::stdout::print;
use intendant_checkpoint::{Checkpoint, CheckpointError};
use intendant_train::TrainError;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Reads the checkpoints as a whole, and reports their problems.
pub(super) fn run(dir: &Path) -> Result<ExitCode, TrainError> {
    let source = Source::find(dir)?;
    let places = source.places()?;
    if places.is_empty() {
        return Err(TrainError::usage(format!("{}: no cut was finished", dir.display())));
    }
    let (mut text, mut bytes, mut whole, mut codes) = (String::new(), 0, 0, Vec::new());
    let start = now();
    for place in &places {
        match Checkpoint::verify(place) {
            Ok(checkpoint) => {
                let manifest = checkpoint.manifest();
                let (keys, parts) =
                    (counted(manifest.keys(), "key"), counted(manifest.parts.len() as u64, "part"));
                bytes += manifest.bytes();
                whole += 1;
                let _ = writeln!(
                    text,
                    "{}: whole, {keys}, {} bytes in {parts}",
                    place.display(),
                    manifest.bytes()
                );
            }
            Err((first, others)) => {
                let wrong: Vec<CheckpointError> = std::iter::once(first).chain(others).collect();
                let is_damaged = wrong.iter().any(|error| matches!(error, CheckpointError::Damaged { .. }));
                let what = if is_damaged { "DAMAGED" } else { "cannot be read" };
                let _ = writeln!(text, "{}: {what}", place.display());
                for error in wrong {
                    say(&error);
                    codes.push(TrainError::from(error).exit_code());
                }
            }
        }
    }
    let seconds = (now() - start).as_secs_f64();
    text.push_str(&unfinished_lines(&source.unfinished()?));
    let all = counted(places.len() as u64, "checkpoint");
    let _ = if codes.is_empty() {
        let speed = bytes as f64 / 1e9 / seconds.max(1e-9);
        writeln!(text, "{all} verified: {bytes} bytes in {seconds:.2} s, {speed:.2} GB/s")
    } else {
        writeln!(text, "{whole} of {all} whole")
    };
    Ok(print(&text, worst(codes)))
}

#[expect(clippy::disallowed_methods, reason = "the user is told how fast the files are read")]
fn now() -> Instant {
    Instant::now()
}
