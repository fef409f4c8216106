//! The command line.

use clap::{Parser, ValueEnum};
use intendant::{ElementType, Technique};
use std::path::PathBuf;

/// Measures operations of the parameter server beside the limit of the machine.
#[derive(Debug, Parser)]
#[command(name = "intendant-bench", version)]
pub(crate) struct Args {
    /// What to measure.
    pub(crate) mode: Mode,
    /// Operation; both if not given.
    #[arg(long)]
    pub(crate) op: Option<Op>,
    /// Elements per value.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) len: u32,
    /// Keys per call.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batch: u32,
    /// Threads that operate at the same time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,
    /// Keys of the model.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub(crate) keys: u64,
    /// Distribution of the keys that are accessed.
    #[arg(long, default_value = "uniform")]
    pub(crate) dist: Dist,
    /// Parameter management technique.
    #[arg(long, default_value = "classic")]
    pub(crate) technique: Technique,
    /// Element type, f32 or f64.
    #[arg(long, default_value = "f32")]
    pub(crate) float: ElementType,
    /// Time to spend per row, in seconds.
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    pub(crate) seconds: f64,
    /// Rounds in which the limit and the measurement take turns; medians are over rounds.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Also write the rows as JSON, one array.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds.is_finite() => Ok(seconds),
        _ => Err("a number of seconds above 0".to_owned()),
    }
}

/// What is measured. Others follow with what they measure.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Mode {
    /// Accesses to parameters that this node owns, beside a plain gather or add over a flat array.
    Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Op {
    /// Read.
    Pull,
    /// Add.
    Push,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dist {
    /// All keys alike.
    Uniform,
    /// Zipf with exponent 1.1, hot keys spread over the key space.
    Zipf,
}
