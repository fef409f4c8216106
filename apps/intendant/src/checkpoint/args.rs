//! The command line of `intendant checkpoint`.

use clap::{Args, Subcommand, ValueEnum};
use std::ops::Range;
use std::path::PathBuf;

/// Look into checkpoints: show, verify, export and compare them.
///
/// A DIR is a folder of checkpoints (as given to --checkpoint) or the folder of one of them (cut-NUMBER).
/// With the feature s3, it is also an address, s3://BUCKET/PREFIX.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
#[command(
    after_help = "Exit codes: 0 ok, 1 failed (diff: the checkpoints differ), 2 wrong usage, no checkpoint, or \
                        one of a later version, 5 damaged."
)]
pub(crate) struct CheckpointArgs {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what checkpoints hold, which run made them, and which one --resume would use. Reads manifests and
    /// sizes of files only
    Show {
        /// A folder of checkpoints, or one of them
        dir: PathBuf,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read checkpoints as a whole: all sums are right, and every key is there once. Names all damage by file
    /// and offset
    Verify {
        /// A folder of checkpoints, of which all are verified, or one of them
        dir: PathBuf,
    },
    Export(ExportArgs),
    /// Compare two checkpoints: their runs, their models, and the values of all keys
    ///
    /// Returns 0 if there is no difference, 1 if there is one, 2 if they cannot be compared. Numbers of cuts,
    /// and the division into parts, are not compared. NaN equals NaN.
    Diff {
        /// A checkpoint, or a folder of them, of which the newest whole one is taken
        a: PathBuf,

        /// As A
        b: PathBuf,

        /// Compare models and values only, not the runs that made them
        #[arg(long)]
        values: bool,
    },
}

/// Write the values of a checkpoint in a format that other programs read.
///
/// OUT is a folder, which is replaced as a whole if it holds an earlier export. Rows are in the order of
/// keys. A checkpoint has no names of keys; the application's --export writes them.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A checkpoint, or a folder of them, of which the newest whole one is taken
    pub(crate) dir: PathBuf,

    /// Folder for the files
    pub(crate) out: PathBuf,

    /// Let the export replace a model of another program or of other data
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// npy: RANGE.npy for each range; safetensors: model.safetensors, with a tensor for each range; word2vec:
    /// RANGE.txt for each range, a word and its numbers per line
    #[arg(long, value_enum)]
    pub(crate) format: Format,

    /// Ranges to export, by name [default: all]
    #[arg(long = "range", value_name = "RANGE")]
    pub(crate) ranges: Vec<String>,

    /// Elements of each value to export, from 0, the end excluded [default: all]. Optimisers keep their state
    /// in the same values: --elements 0..100 leaves it out if vectors have 100 numbers
    #[arg(long, value_name = "FROM..TO", value_parser = elements)]
    pub(crate) elements: Option<Range<usize>>,

    /// File with the words of the exported keys, one per line, in the order of keys; blanks become
    /// underscores
    /// [default: the words are the numbers of keys]. Only with --format word2vec
    #[arg(long, value_name = "FILE")]
    pub(crate) names: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Npy,
    Safetensors,
    Word2vec,
}

fn elements(text: &str) -> Result<Range<usize>, String> {
    let range = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    range
        .filter(|range| !range.is_empty())
        .ok_or_else(|| "write FROM..TO, two numbers of which the second is greater".to_owned())
}
