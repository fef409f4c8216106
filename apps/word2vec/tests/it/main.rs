//! The tests of this crate from outside: one program, a module per subject.

mod ask;
mod data;
mod nodes;
mod serve;
mod techniques;
mod train;
