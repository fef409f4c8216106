//! What a run is to do: the flags, and the plan that they make.
//!
//! `layers` merges flags, environment and file, and knows no particular flag. `args` composes the flags that
//! applications share of those of the other files: those of all applications, and those about parameter
//! management. Each of the other files also checks its flags, and has the part of the [`Plan`] that they
//! make. `plan` puts the parts together.

mod args;
mod checkpoints;
mod cluster;
pub mod flag;
mod headings;
mod intents;
pub(crate) mod keys;
pub(crate) mod layers;
mod outputs;
mod plan;
pub(crate) mod replication;
mod sampling;
mod simulation;
mod technique;
mod tls;
mod values;

pub(crate) use args::{CommonArgs, ServerArgs};
pub use layers::Config;
pub(crate) use outputs::{config_path, history_path};
pub(crate) use plan::Given;
pub use plan::Plan;
pub(crate) use simulation::Bounds;
pub use simulation::Simulation;
pub use technique::Technique;
pub(crate) use technique::without_replicas;
pub(crate) use values::Keep;
pub use values::{DataSource, LocalAccess, TestSource};

#[cfg(test)]
mod pages_tests;
