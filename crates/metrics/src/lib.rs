#![doc = include_str!("../README.md")]
//!
//! Start at [`Source`], what is measured, and [`Endpoint`], where it is served. [`Metric`] describes a
//! number, [`Sample`] is its value now. [`Address`] is where a user wants the endpoint, [`process`] what the
//! operating system says of this process. With the feature `otlp`, `otlp::Push` pushes samples.
//!
//! Inside: `text` encodes samples for Prometheus and `json` as an object; `guard` decides which requests are
//! answered, `visitors` how many connections there are.
//!
//! Not in this crate: the meaning of any number.
#![forbid(unsafe_code)]

mod address;
mod guard;
mod json;
mod metric;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod process;
mod server;
mod text;
mod visitors;

pub use address::{Address, AddressError};
pub use guard::Guard;
pub use metric::{Buckets, Kind, Metric, Sample, Source, Value};
pub use server::{Endpoint, EndpointError, Server};
