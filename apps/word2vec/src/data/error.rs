//! Why a text cannot be opened, scanned or read.

use super::text::WORD_BYTES_MAX;
use super::words::UNKNOWN;
use intendant_formats::TextError;
use std::io;

/// Why a text cannot be used.
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
    /// There is no room for the decompressed text.
    #[error("cannot decompress {file} to a temporary file: {source}; TMPDIR says where it goes")]
    Temporary {
        /// The compressed file.
        file: String,
        /// What went wrong.
        source: io::Error,
    },
    /// A word is so long that the file is probably not a text.
    #[error(
        "{file}: the word that starts at byte {at} is longer than {} bytes; is this a text?",
        WORD_BYTES_MAX
    )]
    LongWord {
        /// The file.
        file: String,
        /// Where the word starts.
        at: u64,
    },
    /// There are more distinct words than can be numbered.
    #[error("{file} has more than {} distinct words", UNKNOWN)]
    TooManyWords {
        /// The file.
        file: String,
    },
    /// No word is frequent enough.
    #[error(
        "no word of {file} occurs {min_count} times (distinct words: {words}, the largest count: {largest}); lower --min-count"
    )]
    NoWords {
        /// The file.
        file: String,
        /// The value of `--min-count`.
        min_count: u64,
        /// Distinct words.
        words: usize,
        /// The largest count.
        largest: u64,
    },
    /// There is not enough text to hold some out.
    #[error(
        "{file} is one block of pieces (lines, or {piece_words_max} words of a longer line), so that none can be held out; use \
         more text, or a smaller --sentence-words"
    )]
    OneBlock {
        /// The file.
        file: String,
        /// Maximum number of words of a piece.
        piece_words_max: u64,
    },
    /// Text that was read in the first pass is no longer there.
    #[error("{file} changed while it was in use: what was read at byte {at} is no longer there; start again")]
    Changed {
        /// The file.
        file: String,
        /// Where it changed.
        at: u64,
    },
    /// There is no such built-in text.
    #[error(
        "there is no builtin:{name}; there are builtin:wiki (from English Wikipedia), builtin:topics:WORDSxTOKENS and \
         builtin:english:WORDSxTOKENS (generated; at least 2 words and 216 tokens)"
    )]
    Builtin {
        /// The name.
        name: String,
    },
}
