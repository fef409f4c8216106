#![doc = include_str!("../README.md")]
//!
//! The map: `process` starts programs and waits for them; [`schema`] holds the members of reports, once;
//! [`case`] says what each technique is there for; [`Authority`]
//! makes certificates; [`Matrix`] runs the cases and compares what was learnt.
//!
//! This crate has nothing that only one application needs, and asserts no times.
#![forbid(unsafe_code)]

pub mod case;
mod certificates;
mod matrix;
mod process;
pub mod schema;

pub use case::Case;
pub use certificates::{Authority, Certificate, NodeFiles};
pub use matrix::{Matrix, Setting};
pub use process::{App, command, finish, ranks, start, unused_port, unused_ports};
