//! The tests of this crate from outside: one program, a module per subject.

mod checkpoint;
mod command_line;
mod copies;
mod history;
mod keep;
mod metrics;
mod patience;
mod restart;
mod shell;
mod tls;
mod traces;
