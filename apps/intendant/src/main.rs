//! The `intendant` command: starts clusters, and looks at machines and at clusters that run.
//!
//! `args` is the command line; `doctor` checks the machine. Launching is in the library, because programs use it too (`--nodes N`).
#![forbid(unsafe_code)]

mod args;
mod doctor;

use args::{Args, Command, LaunchArgs};
use clap::Parser;
use intendant::launch::Launch;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Wrong usage ends in here, with exit code 2.
    let args = Args::parse();
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing_subscriber::filter::LevelFilter::WARN.into())
        .from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match args.command {
        Command::Launch(args) => launch(args),
        Command::Doctor(args) => doctor::run(args.coordinator.as_deref()),
    }
}

fn launch(args: LaunchArgs) -> ExitCode {
    let mut command = args.command.into_iter();
    // The command line parser requires at least one.
    let program = command.next().unwrap_or_default();
    match Launch::new(args.nodes, program).args(command).run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("intendant: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
