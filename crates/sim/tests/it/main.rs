//! The tests of this crate from outside: one program, a module per subject.

mod likes;
mod machines;
mod sampling;
mod scenarios;
mod task;
