//! The tests of this crate from outside: one program, a module per subject.

mod memory;
mod model;
