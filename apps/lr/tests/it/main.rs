//! The tests of this crate from outside: one program, a module per subject.

mod ask;
mod checkpoints;
mod data;
mod nodes;
mod predict;
mod proximal;
mod published;
mod techniques;
mod train;
