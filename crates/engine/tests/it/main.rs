//! The tests of this crate from outside: one program, with a module per subject.
//!
//! `node` is one engine of which a test sees every input and every action. `cluster` is several engines whose
//! links a test, or a seed, empties; it checks invariants after every input.

mod bounds;
mod cluster;
mod hostile;
mod local_access;
mod node;
mod protocol;
mod relocation;
mod replicas;
mod windows;
