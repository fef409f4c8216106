//! Project automation: the checks of CI, simulation, planted bugs, figures and measurements.
//!
//! `cargo xtask verify` runs the checks that a change must pass; `cargo xtask sim` runs and replays seeds of
//! the simulator; `cargo xtask plant` shows that the checks find known bugs; `cargo xtask figure` reproduces
//! figures of the sources; `cargo xtask measure` measures speed, `cargo xtask profile` shows where CPU time
//! goes, `cargo xtask instructions` counts instructions; `cargo xtask calibrate`, `validate-sim` and
//! `sensitivity` compare the simulator with reality.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a command line tool prints")]

mod bug;
mod clock;
mod figure;
mod instructions;
mod items;
mod measure;
mod pinned;
mod pinning;
mod plant;
mod process;
mod profile;
#[cfg(feature = "generate")]
mod protocol;
mod reality;
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
    /// Run all checks of CI, those that fail fastest first
    Verify(verify::Args),
    /// Check the sources for rules that rustfmt and clippy do not cover: width, words, mechanisms, cycles
    Tidy(tidy::Args),
    /// Run random workloads in the simulator and check every run
    Sim(sim::Args),
    /// Reproduce a figure or table of the sources in the simulator, and check its claims
    Figure(figure::Args),
    /// Measure speed, and print it beside targets and rivals
    Measure(measure::Args),
    /// Show where the CPU time of training goes: by thread and by path, of one node and of two
    Profile(profile::Args),
    /// Measure the constants of this machine, and write files for --machine and --net
    Calibrate(reality::calibrate::Args),
    /// Compare simulated with real runs, with the constants of this machine
    ValidateSim(reality::validate::Args),
    /// Change each constant of machines and networks, and show which claims of figures depend on it
    Sensitivity(reality::sensitivity::Args),
    /// Count the instructions per access, and compare them with the recorded counts
    Instructions(instructions::Args),
    /// Compare the code of the control plane's messages with their protocol
    #[cfg(feature = "generate")]
    Protocol(protocol::Args),
    /// Plant known bugs in a scratch copy, and check that the simulator finds each
    Plant(plant::Args),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Verify(args) => verify::run(&args),
        Command::Tidy(args) => tidy::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Figure(args) => figure::run(&args),
        Command::Measure(args) => measure::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Calibrate(args) => reality::calibrate::run(&args),
        Command::ValidateSim(args) => reality::validate::run(&args),
        Command::Sensitivity(args) => reality::sensitivity::run(&args),
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
