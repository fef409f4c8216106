//! The flags that all applications share, as the user typed them.
//!
//! Each flag can also be given as an environment variable (`INTENDANT_` and its name in capitals) and as a
//! key of the `--config` file. [`super::layers`] adds both layers to all flags.

use super::checkpoints::CheckpointArgs;
use super::cluster::ClusterArgs;
use super::flag;
use super::headings::{DATA, TRAINING};
use super::intents::IntentArgs;
use super::outputs::OutputArgs;
use super::replication::ReplicationArgs;
use super::sampling::SamplingArgs;
use super::simulation::SimulationArgs;
use super::values::{DataSource, TestSource, data};
use intendant_core::ElementType;
use std::num::NonZeroU32;

// The flags that all applications share. (Not a documentation comment: it would become the description of the
// program.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct CommonArgs {
    /// Training data
    #[arg(
        long, group = flag::OWN, value_name = "PATH|builtin:NAME", value_parser = data, help_heading = DATA,
    )]
    pub(crate) data: Option<DataSource>,

    /// Test data: a file, or the fraction of the data to hold out
    #[arg(long, groups = [flag::DECIDES, flag::OWN], value_name = "FILE|FRACTION", help_heading = DATA)]
    pub(crate) test: Option<TestSource>,

    /// Passes over the training data; 0 evaluates the initial model
    #[arg(long, value_name = "E", default_value_t = 10, help_heading = TRAINING)]
    pub(crate) epochs: u32,

    /// Validate after every so many epochs; 0 means never
    #[arg(long, value_name = "E", default_value_t = 1, help_heading = TRAINING)]
    pub(crate) valid_every: u32,

    /// End the training when so many validations in a row were not better than the best one before them
    /// [default: never]
    #[arg(long, group = flag::SERVER, value_name = "N", help_heading = TRAINING)]
    pub(crate) patience: Option<NonZeroU32>,

    /// Seed of the initial model, the order of examples and all sampling
    #[arg(long, group = flag::DECIDES, value_name = "S", default_value_t = 1, help_heading = TRAINING)]
    pub(crate) seed: u64,

    /// Element type of parameters: f32 or f64
    #[arg(long, group = flag::DECIDES, value_name = "TYPE", default_value = "f32", help_heading = TRAINING)]
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
    pub(crate) simulation: SimulationArgs,

    #[command(flatten)]
    pub(crate) checkpoints: CheckpointArgs,

    #[command(flatten)]
    pub(crate) outputs: OutputArgs,
}
