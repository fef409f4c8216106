//! The flags of this application, as the user typed them. The common ones are `intendant-train`'s.

use intendant_train::TestSource;

// The model and the chain. (Not a documentation comment: it would become the description of the program.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Flags {
    /// Validation data: a file, or the fraction of the training data to hold out. Without, the quality after
    /// each iteration is that on the test data
    #[arg(long, value_name = "FILE|FRACTION", help_heading = "Data")]
    pub(crate) valid: Option<TestSource>,

    /// Factors of each row and column
    #[arg(long, value_name = "K", default_value_t = 16)]
    pub(crate) rank: usize,

    /// Iterations before predictions are averaged [default: a third of --epochs]
    #[arg(long, value_name = "E")]
    pub(crate) burn_in: Option<u32>,

    /// Precision of entries around the product of their factors: 1 divided by the variance of the noise
    #[arg(long, value_name = "ALPHA", default_value_t = 2.0)]
    pub(crate) alpha: f64,

    /// How many rows the prior of the mean of all rows counts as
    #[arg(long, value_name = "BETA", default_value_t = 2.0)]
    pub(crate) beta: f64,

    /// Degrees of freedom of the prior of the precision of all rows [default: --rank]
    #[arg(long, value_name = "NU")]
    pub(crate) nu: Option<f64>,

    /// By how many iterations rows of other nodes may be too old, with the techniques of Lapser
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) slack: u32,

    /// The same for hyperparameters: 0, since above it the chain samples no common distribution
    #[arg(long, value_name = "S", default_value_t = 0, hide = true)]
    pub(crate) hyper_slack: u32,

    /// Probability of predictive intervals
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    pub(crate) interval: f64,
}
