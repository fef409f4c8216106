//! Why a graph cannot be read, generated or divided.

use intendant_formats::TextError;

/// Why data cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file cannot be read, or a line is not in the format.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A file without triples.
    #[error("{file} holds no triples; remove it if there are none, or copy it again")]
    Empty {
        /// The file.
        file: String,
    },
    /// A folder without training triples.
    #[error(
        "{folder} holds neither train.del (LibKGE) nor train.txt, train.tsv, or one of these and .zst or .gz"
    )]
    NoTraining {
        /// The folder.
        folder: String,
    },
    /// Two files for the same purpose.
    #[error("both {first} and {second} exist; remove one of them")]
    Ambiguous {
        /// A file.
        first: String,
        /// Another one.
        second: String,
    },
    /// A built-in data set that does not exist.
    #[error(
        "there is no data set builtin:{name}; there are builtin:codex-s, \
         builtin:synthetic:ENTITIESxRELATIONSxTRIPLES and builtin:skewed:ENTITIESxRELATIONSxTRIPLES"
    )]
    UnknownBuiltin {
        /// The name.
        name: String,
    },
    /// A generated data set that cannot be generated.
    #[error("builtin:{name}:{spec}: {problem}")]
    Synthetic {
        /// The kind of data set.
        name: &'static str,
        /// The specification.
        spec: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A fraction that holds out nothing or everything.
    #[error(
        "holding out a fraction of {fraction} of {triples} training triples leaves nothing to train on or to test"
    )]
    HoldOut {
        /// The fraction.
        fraction: f64,
        /// Training triples.
        triples: usize,
    },
}
