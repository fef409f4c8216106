#![doc = include_str!("../README.md")]
//!
//! Start at [`Event`], which says what happened at a node. [`Filter`] says which keys are traced.
//! [`Recorder`] writes the events of a node to its file on a thread of its own; [`Writer`] does so without a
//! thread, for a simulated node. [`Trace`] reads a file.
//!
//! This crate neither detects events nor analyses them. The vocabulary of a file is independent of the
//! engine, so that files outlive changes of the engine.
#![forbid(unsafe_code)]

mod error;
mod event;
mod file;
mod filter;
mod header;
mod recorder;

pub use error::TraceError;
pub use event::{Access, Cause, Event, Mark, Micros, What};
pub use file::{Target, Trace, Writer, prepare};
pub use filter::{Filter, FilterError};
pub use header::{Header, NamedRange, VERSION};
pub use recorder::{Recorder, Sink};
