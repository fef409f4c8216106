//! Integration tests of the checkers: one program, a module per subject.

mod consistency;
mod determinism;
mod history;
mod lapser;
mod restart;
mod views;
