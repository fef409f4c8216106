//! The tests of this crate from outside: one program, a module per subject.

mod answers;
mod limits;
mod source;
