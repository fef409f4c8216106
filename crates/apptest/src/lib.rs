#![doc = include_str!("../README.md")]
//!
//! The map: `process` starts programs and waits for them; [`schema`] holds the members of reports, once;
//! [`case`] says what each technique is there for; [`Matrix`] runs the cases and compares what was learnt.
//!
//! Absent on purpose: anything that one application has alone, and time: nothing here asserts how long
//! something takes.
#![forbid(unsafe_code)]

pub mod case;
mod matrix;
mod process;
pub mod schema;

pub use case::Case;
pub use matrix::{Matrix, Setting};
pub use process::{App, command, finish, ranks, start};
