//! The tests of this crate from outside: one program, a module per subject.

mod checker;
mod consistency;
mod determinism;
mod likes;
mod machines;
mod sampling;
mod scenarios;
mod task;
