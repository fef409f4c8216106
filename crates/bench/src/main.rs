//! `intendant-bench`: what operations cost, beside what the machine allows.
//!
//! Every mode runs its own limit in the same process, in turn with the measurement, and prints the ratio: that is the number
//! to quote. Seconds of two runs, or of two machines, do not compare.

mod args;
mod keys;
mod limit;
mod local;
mod measure;
mod row;

use args::{Args, Mode};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    let rows = match args.mode {
        Mode::Local => local::run(&args),
    };
    match rows.and_then(|rows| row::write(&args, &rows)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("intendant-bench: error: {error}");
            ExitCode::from(2)
        }
    }
}
