//! The flags of this application, as the user typed them. The common ones are `intendant-train`'s.

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
    #[arg(long, value_name = "NAME", value_enum, default_value_t = ModelKind::Complex)]
    pub(crate) model: ModelKind,

    /// Real numbers per entity: with complex, the real and imaginary parts of D/2 complex numbers, also for
    /// relations [default: 256; rescal: 128]
    #[arg(long, value_name = "D")]
    pub(crate) dim: Option<usize>,

    /// Loss that is minimised
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Loss::Softmax)]
    pub(crate) loss: Loss,

    /// Triples per batch [default: 256; rescal: 512; logistic: 1]
    #[arg(long, value_name = "B")]
    pub(crate) batch: Option<usize>,

    /// Sampled entities: shared by a batch (softmax), or for each subject and each object (logistic)
    /// [default: 256; rescal: 1024; logistic: 50]
    #[arg(long, value_name = "N")]
    pub(crate) negatives: Option<usize>,

    /// Predict subjects through a reciprocal of each relation [default: true; logistic: false]
    #[arg(long, value_name = "true|false")]
    pub(crate) reciprocal: Option<bool>,

    /// Weight of the N3 penalty, the sum of cubed moduli, on the three embeddings of every prediction
    /// (complex only) [default: 0.007; rescal, logistic: 0]
    #[arg(long, value_name = "WEIGHT")]
    pub(crate) n3: Option<f64>,

    /// Weight of the L2 penalty, the sum of squares, on the three embeddings of every prediction
    /// [default: 0; logistic: 0.001]
    #[arg(long, value_name = "WEIGHT")]
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
