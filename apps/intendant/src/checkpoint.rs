//! `intendant checkpoint`: shows, verifies, exports and compares checkpoints, without the program that wrote
//! them.

mod args;
mod compare;
mod diff;
mod export;
mod problems;
mod show;
mod source;
mod verify;
mod words;

pub(crate) use args::CheckpointArgs;

use args::Command;
use intendant_train::exit;
use problems::say;
use std::process::ExitCode;

/// Runs one of the commands.
pub(crate) fn run(args: CheckpointArgs) -> ExitCode {
    let (done, failed) = match args.command {
        Command::Show { dir, json } => (show::run(&dir, json), exit::OTHER),
        Command::Verify { dir } => (verify::run(&dir), exit::OTHER),
        Command::Export(args) => (export::run(&args), exit::OTHER),
        // As in the program `diff`, 1 means that there are differences.
        Command::Diff { a, b, values } => (diff::run(&a, &b, values), exit::USAGE),
    };
    done.unwrap_or_else(|error| {
        say(&error);
        let code = error.exit_code();
        ExitCode::from(if code == exit::OTHER { failed } else { code })
    })
}
