//! The command line of `intendant trace`.

use clap::builder::RangedI64ValueParser;
use clap::{Args, Subcommand};
use intendant_trace::Filter;
use std::path::PathBuf;

/// Look into traces: merge, summarise and compare them, and show where keys were and why.
///
/// A RUN is the folder that --trace names, with the file of each node; or one file that merge has written.
/// The files of a run that is still running can be read as well.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
#[command(
    after_help = "Exit codes: 0 ok, 1 failed, 2 wrong usage, no trace, or one of a later version, 5 damaged."
)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a run as one Parquet file, with the clocks of all nodes aligned
    ///
    /// pandas, polars and DuckDB open it; docs/traces.md lists its columns. An existing file is replaced.
    Merge {
        /// The run
        run: PathBuf,

        /// The file to write
        out: PathBuf,

        #[command(flatten)]
        limits: LimitArgs,
    },
    /// Show a run in numbers: events, relocations, replicas, remote accesses and their causes, bytes, clocks
    Summary {
        /// The run
        run: PathBuf,

        #[command(flatten)]
        view: ViewArgs,

        /// Longest remote accesses and waits that are listed, with their causes
        #[arg(long, value_name = "N", default_value_t = 10)]
        top: usize,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show where keys were over time: how many at each node, and, as a picture, a row per key
    Allocation {
        /// The run
        run: PathBuf,

        #[command(flatten)]
        view: ViewArgs,

        /// Moments that the table has
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = positive())]
        moments: u32,

        /// Keys that the picture and --json show at most, evenly spread
        #[arg(long, value_name = "N", default_value_t = 200, value_parser = positive())]
        rows: u32,

        #[command(flatten)]
        picture: PictureArgs,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show how long keys were at each node, and how often they moved there
    Affinity {
        /// The run
        run: PathBuf,

        #[command(flatten)]
        view: ViewArgs,

        /// Keys that are shown at most: without --keys, those that moved most often
        #[arg(long, value_name = "N", default_value_t = 20)]
        top: usize,

        /// Write a picture as well
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what happened to a key, and why
    Key {
        /// The run
        run: PathBuf,

        /// The key, a number
        #[arg(value_parser = key)]
        key: u64,

        /// Events that are listed at most, the first ones
        #[arg(long, value_name = "N", default_value_t = 1000)]
        top: usize,

        #[command(flatten)]
        picture: PictureArgs,

        #[command(flatten)]
        limits: LimitArgs,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Compare two runs, such as one with static and one with dynamic allocation
    Compare {
        /// A run
        a: PathBuf,

        /// Another run
        b: PathBuf,

        #[command(flatten)]
        view: ViewArgs,

        /// Keys that the picture shows at most, evenly spread
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = positive())]
        rows: u32,

        #[command(flatten)]
        picture: PictureArgs,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// How much is read.
#[derive(Debug, Args)]
pub(crate) struct LimitArgs {
    /// Events of a run at most; each takes 32 bytes of memory, and half as much again while they are sorted
    #[arg(long, value_name = "N", default_value_t = 50_000_000)]
    pub(crate) max_events: u64,
}

/// Which part of a run is looked at.
#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    /// Keys: all, keys and ranges such as 7,100..200 (without 200), or sample:1/1000
    #[arg(long, value_name = "KEYS", default_value = "all")]
    pub(crate) keys: Filter,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// What a picture shows.
#[derive(Debug, Args)]
pub(crate) struct PictureArgs {
    /// Write a picture
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Width of its rows, in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 900, value_parser = clap::value_parser!(u32).range(100..=16_384))]
    pub(crate) width: u32,

    /// Show the time from so many seconds of the run's clock on [default: the first event]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) from: Option<u64>,

    /// Show the time up to so many seconds of the run's clock [default: the last event]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) to: Option<u64>,
}

/// A parser for the number of rows of a picture or a table.
fn positive() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=10_000)
}

/// The number of a key.
fn key(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "a key is a whole number from 0, such as 42".to_owned())
}

/// Parses seconds; returns microseconds.
fn seconds(text: &str) -> Result<u64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=1e9).contains(seconds));
    seconds
        .map(|seconds| (seconds * 1e6).round() as u64)
        .ok_or_else(|| "allowed are 0 to 1e9 seconds".to_owned())
}
