//! What a run is to do: the flags, and the plan that they make.
//!
//! `layers` merges flags, environment and file, and knows no particular flag. `args` composes the flags that
//! all applications share of those of the other files; each of these files also checks its flags, and has the
//! part of the [`Plan`] that they make. `plan` puts the parts together.

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

pub(crate) use args::CommonArgs;
pub use layers::Config;
pub(crate) use outputs::{config_path, history_path};
pub(crate) use plan::Given;
pub use plan::Plan;
pub(crate) use simulation::Bounds;
pub use simulation::Simulation;
pub use technique::{Exchange, Technique};
pub(crate) use technique::{exchange, without_replicas};
pub(crate) use values::Keep;
pub use values::{DataSource, LocalAccess, TestSource};

#[cfg(test)]
mod pages_tests;
