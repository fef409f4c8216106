//! The tests of this crate from outside: one program, a module per subject.

mod capacity;
mod control_cluster;
mod control_processes;
mod copies;
mod copies_cluster;
mod copies_processes;
mod example;
mod full_link;
mod generated;
mod history_processes;
mod intents;
mod local_cluster;
mod relocation_cluster;
mod sampling;
mod waiting;
