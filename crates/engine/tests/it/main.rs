//! The tests of this crate from outside: one program, with a module per subject.
//!
//! `node` is one engine; the test sees its every input and action. `cluster` is several engines; a test, or a
//! seed, decides which message is delivered next, and the cluster checks invariants after every input.

mod bounds;
mod cluster;
mod hostile;
mod local_access;
mod node;
mod protocol;
mod relocation;
mod replicas;
mod windows;
