//! The headings of flags in the help.

pub(super) const DATA: &str = "Data";
pub(super) const TRAINING: &str = "Training";
pub(super) const CLUSTER: &str = "Cluster";
pub(super) const REPLICATION: &str = "Replication";
pub(super) const INTENTS: &str = "Intents (none of these is needed)";
pub(super) const SAMPLING: &str = "Sampling";
pub(super) const SIMULATION: &str = "Simulation";
pub(super) const CHECKPOINTS: &str = "Checkpoints";
pub(super) const OUTPUT: &str = "Output and configuration";
