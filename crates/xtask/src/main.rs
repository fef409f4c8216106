//! Project automation: everything that CI checks, simulation, planted bugs.
//!
//! `cargo xtask verify` is what a change must pass; `cargo xtask sim` runs and replays seeds of the
//! simulator; `cargo xtask plant` shows that the checks can fail; `cargo xtask figure` reproduces what the
//! sources show; `cargo xtask measure` measures speed, `cargo xtask instructions` counts instructions.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a command line tool prints")]

mod bug;
mod clock;
mod figure;
mod instructions;
mod items;
mod measure;
mod plant;
mod process;
#[cfg(feature = "generate")]
mod protocol;
mod rust;
mod sim;
mod tidy;
mod verify;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project automation", disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check everything that CI checks, what fails fastest first
    Verify(verify::Args),
    /// Check the text of the sources: width, words, mechanisms of the engine, circles between files
    Tidy(tidy::Args),
    /// Run random workloads in the simulator and check every one
    Sim(sim::Args),
    /// Reproduce a figure or table of the sources in the simulator, and judge its claims
    Figure(figure::Args),
    /// Measure speed, and print it beside what is asked for and beside rivals
    Measure(measure::Args),
    /// Count the instructions of accesses, and compare them with what they were
    Instructions(instructions::Args),
    /// Compare the code of the control plane's messages with their protocol
    #[cfg(feature = "generate")]
    Protocol(protocol::Args),
    /// Plant known bugs in a scratch copy, one after the other, and see them caught
    Plant(plant::Args),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Verify(args) => verify::run(&args),
        Command::Tidy(args) => tidy::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Figure(args) => figure::run(&args),
        Command::Measure(args) => measure::run(&args),
        Command::Instructions(args) => instructions::run(&args),
        #[cfg(feature = "generate")]
        Command::Protocol(args) => protocol::run(&args),
        Command::Plant(args) => plant::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
