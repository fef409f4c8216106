//! The tests of this crate from outside: one program, a module per subject.

mod serve;
