#![doc = include_str!("../README.md")]
//!
//! Start at [`App`]: the `main` of an [`Application`], with the flags that all applications share. Below it
//! are three layers, each of which names only those before it. `settings` merges flags, environment and file
//! into a [`Plan`]. `report` has what is known of a run: the sums of its epochs, and what people and programs
//! see of them. `run` trains a [`Task`](intendant_task::Task) as the plan says and returns an [`Outcome`]
//! with the [`Report`].
//!
//! Not in this crate: models and data formats (applications have them), and decisions about the management of
//! parameters.
#![forbid(unsafe_code)]

mod answers;
mod app;
mod clock;
mod error;
mod export;
mod files;
mod launching;
mod logging;
mod measure;
mod preparing;
mod report;
mod run;
mod settings;
mod signals;
mod uses;

pub use answers::{check_predictions, print, write_predictions};
pub use app::{App, Application};
pub use error::{AppError, PathDisplay, SettingError, TrainError, exit};
pub use export::Exporter;
pub use measure::{measure, measure_initial};
pub use report::{
    Access, Bound, Changes, Epoch, Exchanged, Least, Made, Management, ModelSize, Replicated, Report, SCHEMA,
    Sampling, Simulated, Validation, VirtualTime,
};
pub use run::{
    About, Computed, Costs, Outcome, Program, Saved, SavedRun, State, UnderWay, run, run_program, terms,
};
pub use settings::flag;
pub use settings::{Config, DataSource, LocalAccess, Plan, Simulation, Technique, TestSource};
pub use uses::{TopArgs, Use, threads};
