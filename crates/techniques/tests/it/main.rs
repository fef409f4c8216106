//! The tests of this crate from outside: one program, a module per subject.

mod allreduce;
mod allreduce_reachable;
mod assignment;
mod replication;
