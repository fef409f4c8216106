//! The flags of this application, as the user typed them. The common ones are `intendant-train`'s.

use std::path::PathBuf;
use word2vec::Optimizer;

// Model, text and tests. (Not a documentation comment: it would become the description of the program.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Flags {
    /// Numbers of a word's vector
    #[arg(long, value_name = "D", default_value_t = 100)]
    pub(crate) dim: usize,

    /// Maximum number of words on each side of a word that are its context: each word draws a number from 1
    /// to W
    #[arg(long, value_name = "W", default_value_t = 5)]
    pub(crate) window: usize,

    /// Negative samples for each pair of a word and a word of its context
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) negatives: usize,

    /// Skip occurrences of words whose share of the text exceeds PART at random, with a probability that
    /// grows with the share; 0 skips none
    #[arg(long, value_name = "PART", default_value_t = 1e-4)]
    pub(crate) sample: f64,

    /// Leave out words that occur less often [default: 5; generated texts: 0, which keeps all words,
    /// also those that never occur]
    #[arg(long, value_name = "COUNT")]
    pub(crate) min_count: Option<u64>,

    /// Negative samples are drawn in proportion to this power of the words' counts
    #[arg(long, value_name = "POWER", default_value_t = 0.75)]
    pub(crate) power: f64,

    /// Rule that turns gradients into steps
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Optimizer::Sgd)]
    pub(crate) optimizer: Optimizer,

    /// Learning rate; with sgd the initial one [default: 0.025; adagrad: 0.05]
    #[arg(long, value_name = "RATE")]
    pub(crate) lr: Option<f64>,

    /// Maximum number of words of a piece of text. Windows do not reach beyond a piece; a line is a piece, a
    /// longer line is several
    #[arg(
        long, value_name = "WORDS", default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000),
    )]
    pub(crate) sentence_words: u64,

    /// Memory of a process for words of the text, in MiB. Words that do not fit are read again in each epoch
    #[arg(
        long, value_name = "MIB", default_value_t = word2vec::data::MEMORY >> 20,
        value_parser = clap::value_parser!(u64).range(..=1 << 40),
    )]
    pub(crate) text_memory: u64,

    /// Maximum number of words of a batch, skipped words included. A batch is one pull and one push
    #[arg(long, value_name = "WORDS", default_value_t = 50)]
    pub(crate) batch_words: u64,

    /// Make each pair of a word and a word of its context a step of its own, which pulls and pushes two
    /// vectors and the pair's samples, as the programs of the parameter server papers do (only with
    /// --batch-words 1). --localize-ahead and clocks then count 2 W steps for each word; steps without a pair
    /// do nothing
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set,
    )]
    pub(crate) separate: bool,

    /// Test on the analogies of this file: lines of four words, in sections that begin with ': NAME'
    #[arg(long, value_name = "FILE")]
    pub(crate) analogies: Option<PathBuf>,

    /// Skip analogies with words that are not among the WORDS most frequent words; answers are among these,
    /// too
    #[arg(long, value_name = "WORDS", default_value_t = 30_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) analogies_words: u32,

    /// Test on the word similarities of this file: lines of two words and a number, the larger the more
    /// similar; or builtin:topics: words of a generated text are similar if they are of the same topic
    #[arg(long, value_name = "FILE")]
    pub(crate) similarity: Option<PathBuf>,
}
