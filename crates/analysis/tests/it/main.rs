//! The tests of this crate from outside: one program, a module per subject.

mod allocation;
mod clocks;
mod files;
mod made;
mod numbers;
mod pictures;
