//! `intendant checkpoint`: looks into checkpoints, verifies, exports and compares them, without the program
//! that wrote them.

mod args;
mod compare;
mod diff;
mod export;
mod show;
mod verify;

pub(crate) use args::CheckpointArgs;

use args::Command;
use intendant_checkpoint::{Checkpoint, Folder, is_address};
use intendant_train::{TrainError, exit};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs one of the commands.
pub(crate) fn run(args: CheckpointArgs) -> ExitCode {
    let (done, failed) = match args.command {
        Command::Show { dir, json } => (show::run(&dir, json), exit::OTHER),
        Command::Verify { dir } => (verify::run(&dir), exit::OTHER),
        Command::Export(args) => (export::run(&args), exit::OTHER),
        // As for the program of that name, 1 says that there are differences.
        Command::Diff { a, b, values } => (diff::run(&a, &b, values), exit::USAGE),
    };
    done.unwrap_or_else(|error| {
        say(&error);
        let code = error.exit_code();
        ExitCode::from(if code == exit::OTHER { failed } else { code })
    })
}

/// Says on standard error what is wrong.
fn say(what: &impl std::fmt::Display) {
    eprintln!("intendant: {what}");
}

/// Prints a result.
pub(crate) fn print(text: &str, code: u8) -> ExitCode {
    use std::io::Write;
    let mut stdout = std::io::stdout();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    crate::printed(written, ExitCode::from(code))
}

/// Of several things that are wrong, the exit code that says most: damage before all others.
fn worst(codes: impl IntoIterator<Item = u8>) -> u8 {
    let rank =
        |code: &u8| [0, exit::OTHER, exit::USAGE, exit::DAMAGED].iter().position(|known| known == code);
    codes.into_iter().max_by_key(rank).unwrap_or(0)
}

/// `count` things.
fn counted(count: u64, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// What a path names.
enum Source {
    /// A folder of checkpoints.
    Folder(Folder),
    /// The folder of one checkpoint.
    Cut(PathBuf),
}

impl Source {
    fn find(path: &Path) -> Result<Self, TrainError> {
        let refused = |reason: &str| TrainError::usage(format!("{}: {reason}", path.display()));
        if Checkpoint::is_in(path)? {
            return Ok(Self::Cut(path.to_owned()));
        }
        // An object store has no folders, only what lies in them.
        let is_local = !is_address(path);
        if is_local && !path.exists() {
            return Err(refused("there is no such folder; name a folder of checkpoints, or one of its cuts"));
        }
        if is_local && !path.is_dir() {
            return Err(refused("it is no folder; name a folder of checkpoints, or one of its cuts"));
        }
        let folder = Folder::at(path)?;
        if !folder.cuts()?.is_empty() || !folder.unfinished()?.is_empty() {
            return Ok(Self::Folder(folder));
        }
        if folder.has_parts()? {
            return Err(refused(
                "it has no manifest.json, so it is no checkpoint: the cut is being written, or what wrote it has died",
            ));
        }
        Err(refused("there is no checkpoint; name a folder of checkpoints, or one of its cuts"))
    }

    /// The folders of all checkpoints, oldest first.
    fn places(&self) -> Result<Vec<PathBuf>, TrainError> {
        match self {
            Self::Folder(folder) => Ok(folder.cuts()?.into_iter().map(|cut| folder.place(cut)).collect()),
            Self::Cut(place) => Ok(vec![place.clone()]),
        }
    }

    /// Cuts that are not checkpoints.
    fn unfinished(&self) -> Result<Vec<PathBuf>, TrainError> {
        match self {
            Self::Folder(folder) => {
                Ok(folder.unfinished()?.into_iter().map(|cut| folder.place(cut)).collect())
            }
            Self::Cut(_) => Ok(Vec::new()),
        }
    }

    /// Opens the checkpoint that is named, or the newest one that is whole, as `--resume` does; its folder.
    fn open(&self) -> Result<(Checkpoint, PathBuf), TrainError> {
        match self {
            Self::Cut(place) => Ok((Checkpoint::open(place)?, place.clone())),
            Self::Folder(folder) => {
                let Some(latest) = folder.latest()? else {
                    let reason = format!("{}: no cut was finished", folder.path().display());
                    return Err(TrainError::usage(reason));
                };
                for skipped in &latest.skipped {
                    say(&format!("a newer checkpoint is passed over: {skipped}"));
                }
                let place = folder.place(latest.checkpoint.manifest().cut);
                Ok((latest.checkpoint, place))
            }
        }
    }
}

/// Names of cuts without manifest.
fn unfinished_lines(places: &[PathBuf]) -> String {
    let line = |place: &PathBuf| {
        format!(
            "{}: not a checkpoint, it has no manifest.json: it is being written, or what wrote it has died\n",
            place.display()
        )
    };
    places.iter().map(line).collect()
}
