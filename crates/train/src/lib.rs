#![doc = include_str!("../README.md")]
//!
//! Start at [`App`]: the `main` of an application, with the flags that all applications share. Its layers of settings
//! (`settings`) become a [`Plan`]; [`run()`] trains a [`Task`](intendant_task::Task) as the plan says, and returns an
//! [`Outcome`] with the [`Report`]. Inside, `worker` interprets the programs of `intendant-task` with blocking calls, a
//! training thread and a loader thread per worker; `parameters` is what it needs from whoever manages the parameters, which
//! is a `cluster` or, for technique `single`, one array that threads share; `copies` says what is
//! replicated, `sampling` how samples are drawn; `simulation` trains in a simulated cluster instead; `tally` and `meter` are what workers tell each
//! other at the end of an epoch.
//!
//! Absent on purpose: any model or data format (applications have them), and any decision about where parameters are.
#![forbid(unsafe_code)]

mod agreement;
mod ahead;
mod app;
mod args;
mod cluster;
mod copies;
mod error;
mod explain;
mod export;
mod intents;
mod launching;
mod logging;
mod meter;
mod parameters;
mod parse;
mod plan;
mod progress;
mod report;
mod run;
mod sampling;
mod settings;
mod signals;
mod simulation;
mod single;
mod table;
mod tally;
mod worker;

pub use app::App;
pub use args::{DataSource, OrderKind, StorageKind, Technique, TestSource};
pub use copies::Replicated;
pub use error::{AppError, PathDisplay, TrainError, exit};
pub use export::Exporter;
pub use plan::Plan;
pub use report::{Access, Epoch, Management, Milliseconds, ModelSize, Network, Report, SCHEMA, Simulated};
pub use run::{Outcome, run};
pub use sampling::Sampling;
pub use settings::Config;
pub use simulation::Simulation;
