//! The flags of this application, as the user typed them. The common ones are `intendant-train`'s.

use intendant_train::TestSource;
use lr::Optimizer;
use lr::data::{Format, Normalize, Transform};
use std::path::PathBuf;

// Model, data and predictions. (Not a documentation comment: it would become the description of the program.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Flags {
    /// Validation data: a file, or the fraction of the training data to hold out. Without, the quality after
    /// each epoch is that on the test data
    #[arg(long, value_name = "FILE|FRACTION", help_heading = "Data")]
    pub(crate) valid: Option<TestSource>,

    /// Format of all files: libsvm (LABEL INDEX:VALUE …) or csv (a table) [default: csv if the name ends in
    /// .csv or .tsv, also before .zst or .gz; else libsvm]
    #[arg(long, value_name = "NAME", value_enum, help_heading = "Data")]
    pub(crate) format: Option<Format>,

    /// Number of features of libsvm files, if it is larger than the largest index: models of files with
    /// different features then have the same size
    #[arg(
        long, value_name = "N", help_heading = "Data",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(lr::data::FEATURES_MAX)),
    )]
    pub(crate) features: Option<u32>,

    /// Column of the label in tables: a name, or a number from 1 [default: 1]
    #[arg(long, value_name = "COLUMN", help_heading = "Data")]
    pub(crate) label: Option<String>,

    /// Columns of tables whose fields are categories, also if they are numbers: names or numbers, separated
    /// by commas. A field that is no number is a category in other columns as well
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', num_args = 1.., help_heading = "Data")]
    pub(crate) categorical: Option<Vec<String>>,

    /// Columns of tables in which a field that is no number is an error
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', num_args = 1.., help_heading = "Data")]
    pub(crate) numeric: Option<Vec<String>>,

    /// Features of tables are hashed to 2^B slots [default: 18]
    #[arg(
        long, value_name = "B", help_heading = "Data",
        value_parser = clap::value_parser!(u8).range(1..=i64::from(lr::data::HASH_BITS_MAX)),
    )]
    pub(crate) hash_bits: Option<u8>,

    /// What is made of each value: none (the value itself) or log1p (log(1 + value), for counts) [default:
    /// none]
    #[arg(long, value_name = "NAME", value_enum, help_heading = "Data")]
    pub(crate) transform: Option<Transform>,

    /// What is made of each row, after its values: none (the row itself) or l2 (the row divided by its
    /// Euclidean norm) [default: none]
    #[arg(long, value_name = "NAME", value_enum, help_heading = "Data")]
    pub(crate) normalize: Option<Normalize>,

    /// Rule that turns gradients into steps
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Optimizer::Ftrl)]
    pub(crate) optimizer: Optimizer,

    /// Learning rate; of ftrl α; of proximal the part of a step that cannot overshoot [default: 0.2; adagrad:
    /// 0.1; sgd: 0.01; proximal: 1]
    #[arg(long, value_name = "RATE")]
    pub(crate) lr: Option<f64>,

    /// FTRL's β: a feature's steps begin with α / β
    #[arg(long, value_name = "BETA", default_value_t = 1.0)]
    pub(crate) beta: f64,

    /// liblinear's C, the inverse of the weight of the penalty: with ftrl and proximal the same as --l1 1/C,
    /// with adagrad and sgd the same as --l2 1/C [default: 1, unless --l1 or --l2 is given]
    #[arg(long, value_name = "C")]
    pub(crate) c: Option<f64>,

    /// Weight of the L1 penalty: the objective is the sum of the losses of all training rows, plus WEIGHT
    /// times the sum of the sizes of all weights (only with ftrl and proximal) [default: 0]
    #[arg(long, value_name = "WEIGHT")]
    pub(crate) l1: Option<f64>,

    /// Weight of the L2 penalty: the objective is the sum of the losses of all training rows, plus WEIGHT / 2
    /// times the sum of the squares of all weights [default: 0]
    #[arg(long, value_name = "WEIGHT")]
    pub(crate) l2: Option<f64>,

    /// Learn a constant, which is not penalised [default: false]
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        action = clap::ArgAction::Set,
    )]
    pub(crate) intercept: Option<bool>,

    /// Maximum number of rows per batch. A batch is one pull and one push of the features of its rows
    #[arg(long, value_name = "ROWS", default_value_t = 100)]
    pub(crate) batch: usize,

    /// Blocks of features (proximal): a batch is one pull and one push of a block, for all rows of the
    /// worker. The more blocks, the longer its steps [default: 32]
    #[arg(long, value_name = "N")]
    pub(crate) blocks: Option<u32>,

    /// KKT filter (proximal): leave out features whose weight is zero, as long as the gradient of the loss is
    /// smaller than the L1 penalty by this part of it; 0 leaves out most. Every tenth epoch leaves none out
    /// [default: no filter]
    #[arg(long, value_name = "MARGIN")]
    pub(crate) kkt: Option<f64>,

    /// Begin with the weights of this folder, which --export wrote, and read data as that run did. With
    /// --epochs 0 and without --data, nothing is trained: the model is tested, and predicts
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub(crate) model: Option<PathBuf>,

    /// Add a table of predicted and observed probabilities in so many bins of equal width to the test results
    /// of the report [default: 0, which is none]
    #[arg(long, value_name = "BINS", default_value_t = 0, hide_default_value = true)]
    pub(crate) reliability: usize,

    /// Write the probability that the label is 1 of each test row to this file, one per line, in the order of
    /// the rows
    #[arg(
        long, group = intendant_train::flag::OUTPUT, value_name = "FILE",
        help_heading = "Output and configuration",
    )]
    pub(crate) predict: Option<PathBuf>,
}
