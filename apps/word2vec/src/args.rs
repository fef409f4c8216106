//! The flags of this application, as the user typed them. The common ones are `intendant-train`'s.

use clap::ValueEnum;
use std::path::PathBuf;

/// `--optimizer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OptimizerName {
    /// Plain stochastic gradient descent; the learning rate falls linearly, to a ten-thousandth at the end
    Sgd,
    /// AdaGrad, with its accumulators in the values
    Adagrad,
}

// Model, text and tests. (Not a documentation comment: it would become the description of the program.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Flags {
    /// Numbers of a word's vector
    #[arg(long, value_name = "D", default_value_t = 100)]
    pub(crate) dim: usize,

    /// Words on each side of a word that are its context, at most: each word draws how many, from 1 to this
    #[arg(long, value_name = "W", default_value_t = 5)]
    pub(crate) window: usize,

    /// Negative samples for each pair of a word and a word of its context
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) negatives: usize,

    /// Words that are a larger part of the text than this are skipped at random, the more frequent the more often; 0 keeps all
    #[arg(long, value_name = "PART", default_value_t = 1e-4)]
    pub(crate) sample: f64,

    /// Words that occur less often are left out [default: 5; builtin:topics: 0, all words are kept, also those that never occur]
    #[arg(long, value_name = "COUNT")]
    pub(crate) min_count: Option<u64>,

    /// Negative samples are drawn in proportion to this power of the words' counts
    #[arg(long, value_name = "POWER", default_value_t = 0.75)]
    pub(crate) power: f64,

    /// What turns gradients into steps
    #[arg(long, value_name = "NAME", value_enum, default_value_t = OptimizerName::Sgd)]
    pub(crate) optimizer: OptimizerName,

    /// Learning rate, with sgd the one at the start [default: 0.025; adagrad: 0.05]
    #[arg(long, value_name = "RATE")]
    pub(crate) lr: Option<f64>,

    /// Words of a piece of text at most: windows do not reach beyond a piece. A line is a piece, a longer one several
    #[arg(long, value_name = "WORDS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) sentence_words: u64,

    /// Words of a batch, at most, those that are skipped included: what is pulled and pushed at once
    #[arg(long, value_name = "WORDS", default_value_t = 50)]
    pub(crate) batch_words: u64,

    /// Make each pair of a word and a word of its context a step of its own, which pulls and pushes two vectors and the pair's
    /// samples, as the programs of the parameter server papers do (only with --batch-words 1). --localize-ahead and clocks then
    /// count 2 W steps for each word, of which those do nothing that it has no pairs for
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) separate: bool,

    /// Test on the analogies of this file: lines of four words, in sections that begin with ': NAME'
    #[arg(long, value_name = "FILE")]
    pub(crate) analogies: Option<PathBuf>,

    /// Words of analogies and their answers are among so many of the most frequent words; questions with others are skipped
    #[arg(long, value_name = "WORDS", default_value_t = 30_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) analogies_words: u32,

    /// Test on the word similarities of this file: lines of two words and a number, the larger the more similar
    #[arg(long, value_name = "FILE")]
    pub(crate) similarity: Option<PathBuf>,
}
