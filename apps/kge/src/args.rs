//! The flags of this application, as the user typed them. The common ones are `intendant-train`'s.

use crate::help;
use clap::ValueEnum;
use kge::{Cluster, Loss, ModelKind};

/// `--unseen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnseenPolicy {
    /// Evaluate them with their initial embeddings
    Rank,
    /// Leave them out
    Skip,
}

// Model, loss and optimiser. (Not a documentation comment: it would become the description of the program.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Flags {
    /// Model
    #[arg(long, value_name = "NAME", value_enum, default_value_t = ModelKind::DEFAULT)]
    pub(crate) model: ModelKind,

    #[arg(long, value_name = "D", help = help::dim())]
    pub(crate) dim: Option<usize>,

    /// Loss that is minimised
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Loss::Softmax)]
    pub(crate) loss: Loss,

    #[arg(long, value_name = "B", help = help::batch())]
    pub(crate) batch: Option<usize>,

    #[arg(long, value_name = "N", help = help::negatives())]
    pub(crate) negatives: Option<usize>,

    /// Predict subjects through a reciprocal of each relation [default: true; logistic: false]
    #[arg(long, value_name = "true|false")]
    pub(crate) reciprocal: Option<bool>,

    #[arg(long, value_name = "WEIGHT", help = help::n3())]
    pub(crate) n3: Option<f64>,

    #[arg(long, value_name = "WEIGHT", help = help::l2())]
    pub(crate) l2: Option<f64>,

    /// Learning rate of AdaGrad
    #[arg(long, value_name = "RATE", default_value_t = 0.1)]
    pub(crate) lr: f64,

    /// Standard deviation of the initial embeddings
    #[arg(long, value_name = "SCALE", default_value_t = 0.1)]
    pub(crate) init_scale: f64,

    /// Which node trains which triples
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = Cluster::None)]
    pub(crate) cluster: Cluster,

    /// Make each score of a triple a step of its own, which pulls and pushes a subject, a relation and an
    /// object, as the programs of the parameter server papers do (only with the logistic loss and batches of
    /// one triple). --localize-ahead and clocks then count 1 + 2 N steps for each triple
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set,
    )]
    pub(crate) separate: bool,

    /// What to do with held-out triples whose entities or relation do not occur in training
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = UnseenPolicy::Rank)]
    pub(crate) unseen: UnseenPolicy,
}
