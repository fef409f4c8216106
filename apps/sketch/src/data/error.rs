//! Why a stream cannot be opened, read or generated.

use super::items::{COUNT_MAX, RECORD_BYTES_MAX};
use intendant_formats::TextError;
use std::io;

/// Why a stream cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// It cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// What went wrong.
        source: io::Error,
    },
    /// It cannot be opened, or is damaged.
    #[error(transparent)]
    Text(TextError),
    /// There is no room for the decompressed file.
    #[error("cannot decompress {file} to a temporary file: {source}; TMPDIR says where it goes")]
    Temporary {
        /// The compressed file.
        file: String,
        /// What went wrong.
        source: io::Error,
    },
    /// A line is not in the format.
    #[error("{file}, line {line}: {problem}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it, and what was expected.
        problem: String,
    },
    /// A word or line is so long that the file is probably not a text.
    #[error("{file}: no {what} ends within {} bytes from byte {at} on; is this a text?", RECORD_BYTES_MAX)]
    Long {
        /// The file.
        file: String,
        /// A word or a line.
        what: &'static str,
        /// Where the search for its end began.
        at: u64,
    },
    /// Content that was read before is no longer there.
    #[error("{file} changed while it was in use: it ends before byte {at}; start again")]
    Changed {
        /// The file.
        file: String,
        /// Where content was expected.
        at: u64,
    },
    /// Counts add up to more than a cell can hold.
    #[error("the counts of {file} add up to more than {COUNT_MAX}, up to which sums are exact")]
    TooMany {
        /// The file.
        file: String,
    },
    /// There is no such built-in stream.
    #[error(
        "there is no builtin:{name}; there is builtin:zipf, also of another size as in builtin:zipf:1000000x50000 (items, distinct \
         items) or builtin:zipf:1000000x50000x1.3 (and the exponent)"
    )]
    Builtin {
        /// The name.
        name: String,
    },
    /// A generated stream consists of numbers.
    #[error(
        "builtin streams are of integers without counts: leave --items, --ngrams and --counts out, or name a file by --data"
    )]
    Generated,
}
