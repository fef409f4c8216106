//! The flags of this application, as the user typed them. The common ones are `intendant-train`'s.

use crate::exchange::Exchange;
use clap::builder::RangedU64ValueParser;
use intendant_core::limits;
use intendant_lapser_process::Way;
use intendant_train::{TestSource, flag};
use std::convert::Infallible;

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
    /// [default: follows from the data]
    #[arg(long, value_name = "ALPHA")]
    pub(crate) alpha: Option<f64>,

    /// How many rows the prior of the mean of all rows counts as
    #[arg(long, value_name = "BETA", default_value_t = 2.0)]
    pub(crate) beta: f64,

    /// Degrees of freedom of the prior of the precision of all rows [default: --rank]
    #[arg(long, value_name = "NU")]
    pub(crate) nu: Option<f64>,

    /// By how many iterations rows of other nodes may be too old, with the exchanges of Lapser
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) slack: u32,

    /// The same for hyperparameters: 0, since above it the chain samples no common distribution
    #[arg(long, value_name = "S", default_value_t = 0, hide = true)]
    pub(crate) hyper_slack: u32,

    /// Probability of predictive intervals
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    pub(crate) interval: f64,

    /// Threads per node
    #[arg(
        long, group = flag::CLUSTER, value_name = "T", default_value = "1", value_parser = threads(),
        help_heading = CLUSTER,
    )]
    pub(crate) threads: usize,

    /// How nodes exchange rows: lapser-push (a node writes a row to the nodes that need it), lapser-pull
    /// (they read it when their copy is too old), lapser-push-by-slack (it is written to those whose copy
    /// would be too old), or, to compare with, one-sided (as lapser-push, and all nodes meet after each
    /// step), all-gather (all rows of a step are written to all nodes at once), broadcast (each row to all
    /// nodes)
    #[arg(
        long, group = flag::CLUSTER, value_name = "NAME", default_value = "lapser-push",
        help_heading = CLUSTER,
    )]
    pub(crate) exchange: Exchange,

    /// How nodes reach each other's memory: shm (they map it; all are on one host), verbs (over RDMA, in
    /// programs built with the feature verbs), or auto (shm if all nodes are on one host, else verbs)
    #[arg(
        long, groups = [flag::CLUSTER, flag::OWN], value_name = "KIND", default_value = "auto",
        help_heading = CLUSTER,
    )]
    pub(crate) memory: Way,

    #[command(flatten)]
    _refused: Refused,
}

/// The heading of the common flags about nodes.
const CLUSTER: &str = "Cluster";

fn threads() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=limits::WORKERS_MAX as u64)
}

// Flags of other programs that this one refuses with a reason: those that it has by another name, as it once
// had them by this name, and those that have no meaning for a chain. None of them can have a value.
#[derive(clap::Args, Clone, Debug)]
struct Refused {
    #[arg(long, hide = true, group = flag::CLUSTER, value_parser = refused("give --exchange instead"))]
    technique: Option<Infallible>,
    #[arg(long, hide = true, group = flag::CLUSTER, value_parser = refused("give --threads instead"))]
    workers: Option<Infallible>,
    #[arg(long, hide = true, group = flag::CLUSTER, value_parser = refused("give --memory instead"))]
    transport: Option<Infallible>,
    #[arg(long, hide = true, group = flag::CLUSTER, value_parser = refused(
        "samples are drawn and averaged in f64; leave it out"
    ))]
    float: Option<Infallible>,
    #[arg(long, hide = true, group = flag::CLUSTER, value_parser = refused(ONE_CHAIN))]
    patience: Option<Infallible>,
    #[arg(long, hide = true, group = flag::CLUSTER, value_parser = refused(ONE_CHAIN))]
    keep: Option<Infallible>,
}

/// Why iterations are not compared.
const ONE_CHAIN: &str = "no iteration of a chain has the best model, as predictions are averages over all iterations after \
                         the burn-in; leave it out";

/// The parser of a flag that is refused for a reason.
fn refused(reason: &'static str) -> impl Fn(&str) -> Result<Infallible, &'static str> + Clone {
    move |_| Err(reason)
}
