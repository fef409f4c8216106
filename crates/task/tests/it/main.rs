//! The tests of this crate from outside: one program, a module per subject.

mod in_place;
mod programs;
mod resume;
mod rules;
