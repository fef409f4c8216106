//! The tests of this crate from outside: one program, a module per subject.

mod checkpoint;
mod command;
mod dashboard;
mod export;
mod trace;
