#![doc = include_str!("../README.md")]
//!
//! Every training algorithm that Intendant serves has one shape: *prepare a batch → pull → compute an update
//! → push → advance the clock*, with barriers between epochs. A [`Task`] supplies these phases. [`Driver`] (a
//! worker) and [`Loader`] (which prepares batches ahead of it) are programs that state, step by step, which
//! operation they want done ([`Op`], [`LoaderOp`]). The interpreter of these operations decides what a pull
//! costs: it may run threads and sockets, or virtual time.
//!
//! A step is computed on copies of the values ([`Task::compute`]), or in place ([`Task::train`]), on [`Rows`]
//! that the interpreter lends.
//!
//! This crate has no threads, channels or clocks, and does not depend on techniques of parameter management.
#![forbid(unsafe_code)]

mod baseline;
mod course;
mod driver;
mod evaluation;
pub mod kernel;
mod loader;
mod op;
mod order;
mod patience;
mod plain;
mod ranking;
mod task;

pub use baseline::Baseline;
pub use course::{Rest, RestError, Stretch};
pub use driver::Driver;
pub use evaluation::{Evaluation, Reduction, Split};
pub use intendant_store::Row;
pub use loader::{Announcement, Loader, LoaderEvent, LoaderOp, LookAhead};
pub use op::{Diverged, Event, Op, Progress, Schedule, Start};
pub use order::{EpochOrder, expected_batches};
pub use patience::{Best, Better, Criterion, Patience};
pub use plain::PlainRows;
pub use ranking::{Ranking, Ranks};
pub use task::{
    BatchAt, Cost, Frequency, Model, ModelRange, Partition, Prepared, Pulled, Rows, SampleRequest,
    StepReport, Subepoch, Task, Update, equal_share,
};
