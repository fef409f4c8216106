//! The tests of this crate from outside: one program, a module per subject.

mod capacity;
mod control_cluster;
mod control_processes;
mod example;
mod full_link;
mod history_processes;
mod intents;
mod local_cluster;
mod packing;
mod relocation_cluster;
mod replication;
mod replication_cluster;
mod replication_processes;
mod rules;
mod sampling;
mod traces;
mod waiting;
