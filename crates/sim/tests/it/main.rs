//! Integration tests of the simulator: one program, a module per subject.

mod likes;
mod machines;
mod sampling;
mod scenarios;
mod task;
