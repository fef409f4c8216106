//! The flags of this application, as the user typed them. The common ones are `intendant-train`'s.

use intendant_train::TestSource;
use mf::{Algorithm, Optimizer, Scope};

// Model, algorithm and optimiser. (Not a documentation comment: it would become the description of the
// program.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Flags {
    /// Validation data: a file, or the fraction of the training data to hold out. Without, the quality after
    /// each epoch is that on the test data
    #[arg(long, value_name = "FILE|FRACTION", help_heading = "Data")]
    pub(crate) valid: Option<TestSource>,

    /// Factors of each row and column
    #[arg(long, value_name = "K", default_value_t = 16)]
    pub(crate) rank: usize,

    /// Whether rows and columns have biases, around the mean of all training entries
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) bias: bool,

    /// How an epoch is divided [default: tiles with techniques that act on intents, else columns]
    #[arg(long, value_name = "NAME", value_enum)]
    pub(crate) algorithm: Option<Algorithm>,

    /// Rule that turns gradients into steps
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Optimizer::RowAdaGrad)]
    pub(crate) optimizer: Optimizer,

    /// Learning rate [default: 0.05; sgd: 0.01]
    #[arg(long, value_name = "RATE")]
    pub(crate) lr: Option<f64>,

    /// Raise the learning rate by 5 % after each epoch in which the training loss fell, halve it after any
    /// other (only with sgd)
    #[arg(long)]
    pub(crate) bold_driver: bool,

    /// Weight of the L2 penalty of factors, half the sum of their squares [default: follows from the data]
    #[arg(long, value_name = "WEIGHT")]
    pub(crate) l2: Option<f64>,

    /// Weight of the L2 penalty of biases, half the sum of their squares [default: follows from the data]
    #[arg(long, value_name = "WEIGHT")]
    pub(crate) l2_bias: Option<f64>,

    /// How often the L2 penalties of a row or column are applied in an epoch
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t = Scope::Key)]
    pub(crate) l2_scope: Scope,

    /// Maximum number of entries per batch, which are trained on one copy of their column. With 1, each entry
    /// is a pull and a push of two keys (the parameter server papers' setting) [default: 128 with tiles and
    /// on one node, else 64]
    #[arg(long, value_name = "B")]
    pub(crate) batch: Option<usize>,

    /// Standard deviation of the initial factors
    #[arg(long, value_name = "SCALE", default_value_t = 0.1)]
    pub(crate) init_scale: f64,
}
