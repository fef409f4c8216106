#![doc = include_str!("../README.md")]
//!
//! Start at [`Source`], which provides the numbers, and [`Endpoint`], which serves them. [`Metric`] describes
//! a number; [`Sample`] is its current value. [`Address`] is the address at which a user wants the endpoint.
//! [`process`] reads what the operating system reports about this process. With the feature `otlp`,
//! `otlp::Push` pushes samples. [`text`] encodes samples for Prometheus.
//!
//! Internal modules: `json` encodes samples as an object; `guard` decides which
//! requests are answered; `visitors` limits the connections.
//!
//! This crate does not know the meaning of any number.
#![forbid(unsafe_code)]

mod address;
mod guard;
mod json;
mod metric;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod process;
mod server;
pub mod text;
mod visitors;

pub use address::{Address, AddressError};
pub use guard::Guard;
pub use metric::{Buckets, Kind, Metric, Sample, Source, Value};
pub use server::{Endpoint, EndpointError, Server};
