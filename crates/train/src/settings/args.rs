//! The flags that applications share, as the user typed them.
//!
//! [`CommonArgs`] are those of all applications. [`ServerArgs`] are about the management of parameters;
//! applications without a parameter server do not have them.
//!
//! Each flag can also be given as an environment variable (`INTENDANT_` and its name in capitals) and as a
//! key of the `--config` file. [`super::layers`] adds both layers to all flags.

use super::checkpoints::{CheckpointArgs, ServerCheckpointArgs};
use super::cluster::{ClusterArgs, NodeArgs};
use super::flag::{self, Attributes};
use super::headings::{DATA, TRAINING};
use super::intents::IntentArgs;
use super::outputs::{OutputArgs, ServerOutputArgs};
use super::replication::ReplicationArgs;
use super::sampling::SamplingArgs;
use super::simulation::{ServerSimulationArgs, SimulationArgs};
use super::technique::Technique;
use super::tls::TlsArgs;
use super::values::{DataSource, TestSource, data};
use clap::{Args, Command, FromArgMatches};
use intendant_core::ElementType;
use std::num::NonZeroU32;

// The flags of all applications. (Not a documentation comment: it would become the description of the
// program.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct CommonArgs {
    /// Training data
    #[arg(
        long, groups = [flag::BASIC, flag::OWN], value_name = "PATH|builtin:NAME", value_parser = data,
        help_heading = DATA,
    )]
    pub(crate) data: Option<DataSource>,

    /// Test data: a file, or the fraction of the data to hold out
    #[arg(
        long, groups = [flag::BASIC, flag::DECIDES, flag::OWN], value_name = "FILE|FRACTION",
        help_heading = DATA,
    )]
    pub(crate) test: Option<TestSource>,

    /// Passes over the training data; 0 evaluates the initial model
    #[arg(long, group = flag::BASIC, value_name = "E", default_value_t = 10, help_heading = TRAINING)]
    pub(crate) epochs: u32,

    /// Validate after every so many epochs; 0 means never
    #[arg(long, group = flag::BASIC, value_name = "E", default_value_t = 1, help_heading = TRAINING)]
    pub(crate) valid_every: u32,

    /// Seed of the initial model, the order of examples and all sampling
    #[arg(
        long, groups = [flag::BASIC, flag::DECIDES], value_name = "S", default_value_t = 1,
        help_heading = TRAINING,
    )]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) nodes: NodeArgs,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,

    #[command(flatten)]
    pub(crate) simulation: SimulationArgs,

    #[command(flatten)]
    pub(crate) checkpoints: CheckpointArgs,

    #[command(flatten)]
    pub(crate) outputs: OutputArgs,
}

// The flags about the management of parameters. (Not a documentation comment, as above.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ServerArgs {
    /// End the training when so many validations in a row were not better than the best one before them
    /// [default: never]
    #[arg(long, group = flag::BASIC, value_name = "N", help_heading = TRAINING)]
    pub(crate) patience: Option<NonZeroU32>,

    /// Element type of parameters: f32 or f64
    #[arg(
        long, groups = [flag::BASIC, flag::DECIDES], value_name = "TYPE", default_value = "f32",
        help_heading = TRAINING,
    )]
    pub(crate) float: ElementType,

    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,

    #[command(flatten)]
    pub(crate) replication: ReplicationArgs,

    #[command(flatten)]
    pub(crate) intents: IntentArgs,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    #[command(flatten)]
    pub(crate) simulation: ServerSimulationArgs,

    #[command(flatten)]
    pub(crate) checkpoints: ServerCheckpointArgs,

    #[command(flatten)]
    pub(crate) outputs: ServerOutputArgs,
}

impl ServerArgs {
    /// In place of the flags, for a program without a parameter server: the defaults, and the technique is
    /// the program's own. Nothing that such a program runs reads the others.
    pub(crate) fn none() -> Self {
        // Flags name others with which they conflict.
        let command = CommonArgs::augment_args(Attributes::declare(Command::new("none")));
        let matches = Self::augment_args(command).get_matches_from([""]);
        let mut none = Self::from_arg_matches(&matches).expect("every flag is optional or has a default");
        none.cluster.technique = Technique::Own("own");
        none
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_parameter_server_the_flags_are_at_their_defaults() {
        let ServerArgs { cluster, float, .. } = ServerArgs::none();
        assert_eq!((cluster.technique, cluster.workers, float), (Technique::Own("own"), 1, ElementType::F32));
    }
}
