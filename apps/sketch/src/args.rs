//! The flags of this application, as the user typed them. The common ones are `intendant-train`'s.

use sketch::Kind;
use std::path::PathBuf;

/// What an item is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ItemsName {
    /// Words between blanks; with --ngrams several.
    Words,
    /// Lines.
    Lines,
    /// Integers from 0 to 2^64 - 1, one per line.
    Integers,
}

// Sketch, stream and questions. (Not a documentation comment: it would become the description of the
// program.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Flags {
    /// What an item is [default: words; built-in streams: integers]
    #[arg(long, value_name = "NAME", value_enum, help_heading = "Data")]
    pub(crate) items: Option<ItemsName>,

    /// Make each N neighbouring words of a line an item (only with words) [default: 1]
    #[arg(
        long, value_name = "N", help_heading = "Data",
        value_parser = clap::value_parser!(u32).range(1..=1000),
    )]
    pub(crate) ngrams: Option<u32>,

    /// Lines end with a tab and a count: how often the item or the items of the line are counted
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, help_heading = "Data",
        default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set,
    )]
    pub(crate) counts: bool,

    /// What cells hold: count-min (estimates are never below the truth) or count-sketch (signed counts;
    /// estimates are right on average) [default: count-min]
    #[arg(long, value_name = "NAME", value_enum)]
    pub(crate) kind: Option<Kind>,

    /// Error of an estimate: as a part of the number of all items (count-min), or of the root of the sum of
    /// the squares of all counts (count-sketch) [default: 0.0001; count-sketch: 0.01]
    #[arg(long, value_name = "PART")]
    pub(crate) epsilon: Option<f64>,

    /// Probability that the error of an item is larger [default: 0.01]
    #[arg(long, value_name = "PART")]
    pub(crate) delta: Option<f64>,

    /// Cells of a row, instead of --epsilon; they are rounded up to a multiple of --block
    #[arg(long, value_name = "CELLS", conflicts_with = "epsilon")]
    pub(crate) width: Option<u64>,

    /// Rows, instead of --delta
    #[arg(long, value_name = "ROWS", conflicts_with = "delta")]
    pub(crate) depth: Option<usize>,

    /// Cells of one parameter: what is moved, copied and sent as a whole [default: 64]
    #[arg(long, value_name = "CELLS")]
    pub(crate) block: Option<usize>,

    /// Bytes of the stream per batch, about: a batch has the words or lines that begin in them. Generated
    /// items have 8 bytes. A batch is one pull and one push of the blocks of its items
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 18)]
    pub(crate) batch_bytes: u64,

    /// Add up the counts of equal items of a batch before they are hashed to cells
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) aggregate: bool,

    /// Find the K most frequent items
    #[arg(long, value_name = "K", default_value_t = 0, hide_default_value = true)]
    pub(crate) top: usize,

    /// Print the estimated counts of the items of this file, which is read as the stream is, without counts
    #[arg(long, value_name = "FILE")]
    pub(crate) query: Option<PathBuf>,

    /// Count this part of the distinct items exactly as well, in another pass over the stream, and compare
    /// their estimates [default: 0; built-in streams: 1]
    #[arg(long, value_name = "PART")]
    pub(crate) exact: Option<f64>,

    /// Begin with the sketch of this folder, which --export wrote. Without --data, nothing is counted
    #[arg(long, value_name = "DIR")]
    pub(crate) sketch: Option<PathBuf>,
}
