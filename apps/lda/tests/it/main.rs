//! The tests of this crate from outside: one program, a module per subject.

mod data;
mod nodes;
mod saved;
mod techniques;
mod train;
