#![doc = include_str!("../README.md")]
//!
//! `process` starts programs and waits for them; [`Service`] is one that answers over HTTP; [`schema`] is the
//! only list of the members of reports; [`technique`] reads the techniques from their page, and [`case`]
//! defines the purpose of each; [`Authority`] makes certificates; [`Matrix`] runs the cases and compares how
//! much they have learnt; [`pages`] compares tables of pages with declarations.
//!
//! This crate has nothing that only one application needs, and asserts no times.
#![forbid(unsafe_code)]

pub mod case;
mod certificates;
mod matrix;
pub mod pages;
mod process;
pub mod schema;
mod service;
pub mod technique;

pub use case::Case;
pub use certificates::{Authority, Certificate, NodeFiles};
pub use matrix::{Matrix, Setting};
pub use process::{App, command, finish, ranks, start, unused_port, unused_ports};
pub use service::{Response, Service, answer};
