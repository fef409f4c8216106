//! Why the data of a matrix cannot be read or held out.

use intendant_formats::TextError;

/// Why data cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file cannot be read, or a line is not in the format.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A file without entries.
    #[error("{file} holds no entries; expected lines of row, column and value, or a MatrixMarket file")]
    Empty {
        /// The file.
        file: String,
    },
    /// A MatrixMarket file that announces another number of entries than it has.
    #[error("{file} announces {announced} entries but holds {found}; copy it again")]
    Incomplete {
        /// The file.
        file: String,
        /// Entries according to the second line.
        announced: u64,
        /// Entries that are there.
        found: u64,
    },
    /// Too many rows, columns or entries for 32 bits.
    #[error("{file}: {what}")]
    TooMany {
        /// The file.
        file: String,
        /// What exceeds its limit, and the limit.
        what: String,
    },
    /// A file of held-out entries whose format differs from that of the training file.
    #[error("{file} is {}a MatrixMarket file, other than the training data; its numbers would mean something else", if *market { "" } else { "not " })]
    OtherFormat {
        /// The file.
        file: String,
        /// Whether it is a MatrixMarket file.
        market: bool,
    },
    /// A fraction that holds out nothing or everything.
    #[error(
        "holding out a fraction of {fraction} of {entries} entries leaves nothing to train on or to evaluate"
    )]
    HoldOut {
        /// The fraction.
        fraction: f64,
        /// Training entries.
        entries: usize,
    },
}
