//! Integration tests of the simulator: one program, a module per subject.

mod likes;
mod locations;
mod machines;
mod onesided;
mod sampling;
mod scenarios;
mod still;
mod task;
mod traces;
