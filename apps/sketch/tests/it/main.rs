//! The tests of this crate from outside: one program, a module per subject.

mod ask;
mod count;
mod failures;
mod nodes;
mod refusals;
mod techniques;
