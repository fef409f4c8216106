//! The flags of this application, as the user typed them. The common ones are `intendant-train`'s.

use lda::data::Format;
use std::path::PathBuf;

// Documents, model and predictions. (Not a documentation comment: it would become the description of the
// program.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Flags {
    /// Format of all files of documents: bag (UCI bag of words) or text (a document per line) [default: bag
    /// if the name starts with docword., else text]
    #[arg(long, value_name = "NAME", value_enum, help_heading = "Data")]
    pub(crate) format: Option<Format>,

    /// Words of a bag of words, one per line; without, words are called by their numbers
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    pub(crate) vocab: Option<PathBuf>,

    /// Leave out words that occur less often in all documents together [default: 5; bags of words: 1]
    #[arg(long, value_name = "COUNT", help_heading = "Data")]
    pub(crate) min_count: Option<u64>,

    /// Number of topics [default: 20; with --model that of the model]
    #[arg(long, value_name = "K")]
    pub(crate) topics: Option<usize>,

    /// Concentration of the topics of a document: the smaller, the fewer topics a document has [default: 0.1;
    /// with --model that of the model]
    #[arg(long, value_name = "ALPHA")]
    pub(crate) alpha: Option<f64>,

    /// Concentration of the words of a topic: the smaller, the fewer words a topic has [default: 0.01; with
    /// --model that of the model]
    #[arg(long, value_name = "ETA")]
    pub(crate) eta: Option<f64>,

    /// Maximum number of documents of a batch. A batch is one pull and one push of the words of its documents
    #[arg(long, value_name = "DOCUMENTS", default_value_t = 16)]
    pub(crate) batch: u64,

    /// Words of each topic that are printed at the end and exported; 0 prints no topics
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top_words: usize,

    /// Test the model of this folder, which --export wrote, and predict with it: with --epochs 0, --test FILE
    /// and without --data
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "data"])]
    pub(crate) model: Option<PathBuf>,

    /// Write the proportions of topics in each test document to this file: a line for each, with what the
    /// data calls it (its number or its line) and a number for each topic, between tabs
    #[arg(
        long, group = intendant_train::flag::OUTPUT, value_name = "FILE",
        help_heading = "Output and configuration",
    )]
    pub(crate) predict: Option<PathBuf>,
}
