//! The tests of this crate from outside: one program, a module per subject.

mod common;
mod conformity;
mod near;
mod sampler;
mod schemes;
