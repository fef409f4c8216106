//! Why documents cannot be read, generated or held out.

use intendant_formats::TextError;

/// Maximum number of generated documents.
pub(super) const DOCUMENTS_MAX: u32 = 1 << 26;

/// Why documents cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file cannot be read, or a line of it is wrong.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A vocabulary does not have as many words as the documents.
    #[error("{vocabulary} has {words} words, but {documents} has {expected}: one word per line is needed")]
    Vocabulary {
        /// The file of the words.
        vocabulary: String,
        /// Number of words in it.
        words: usize,
        /// The file of the documents.
        documents: String,
        /// Number of words of the documents.
        expected: usize,
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
    /// Test documents have other words than the model.
    #[error(
        "{file} has none of the {words} words of the model; words of a bag of words are their numbers, unless --vocab names them"
    )]
    Unknown {
        /// The file.
        file: String,
        /// Words of the model.
        words: usize,
    },
    /// Nothing is left to train on, or nothing to test on.
    #[error("holding out every {every}th of {documents} documents leaves nothing to {purpose}")]
    HeldOut {
        /// One of this many documents is held out.
        every: u64,
        /// Documents.
        documents: usize,
        /// The purpose for which nothing is left.
        purpose: &'static str,
    },
    /// There are no such generated documents.
    #[error(
        "there is no builtin:{name}; there is builtin:topics, or builtin:topics:DOCUMENTSxWORDSxTOPICS (from 1 topic with \
         2 words each; at most {} documents)",
        DOCUMENTS_MAX
    )]
    Builtin {
        /// The name.
        name: String,
    },
}
