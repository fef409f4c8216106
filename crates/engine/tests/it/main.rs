//! The tests of this crate from outside: one program, a module per subject.

mod bounds;
mod hostile;
mod protocol;
mod relocation;
mod replicas;
