#![doc = include_str!("../README.md")]
//!
//! Start at [`App`]: the `main` of an [`Application`], with the flags that all applications share. `settings`
//! merges flags, environment and file into a [`Plan`]. [`run()`] trains a [`Task`](intendant_task::Task) as
//! the plan says and returns an [`Outcome`] with the [`Report`].
//!
//! Inside, `worker` interprets the programs of `intendant-task` with blocking calls, on a training thread and
//! a loader thread per worker. `parameters` is its interface to the parameters: a `cluster` or, for technique
//! `single`, one array that the threads share. `replication` decides which keys are replicated, `sampling`
//! how samples are drawn. `program` runs [`Program`]s, which train without parameters that are managed.
//! `simulation` trains in a simulated cluster instead. `meter` measures each epoch; workers exchange the
//! results as a `tally`. `history` writes each epoch's results when it ends, `results` and `export` write the
//! outputs of a run; `output` replaces files as a whole and refuses to overwrite inputs. `metrics` serves the
//! numbers of a node while it trains.
//!
//! Not in this crate: models and data formats (applications have them), and decisions about the management of
//! parameters.
#![forbid(unsafe_code)]

mod agreement;
mod ahead;
mod app;
mod args;
mod best;
mod bound;
mod cluster;
mod copies;
mod cut;
mod error;
mod exchanged;
mod explain;
mod export;
mod history;
mod intents;
mod launching;
mod logging;
mod meter;
mod metrics;
mod nodes;
mod origin;
mod output;
mod parameters;
mod parse;
mod plan;
mod program;
mod progress;
mod replication;
mod report;
mod results;
mod run;
mod sampling;
mod saved;
mod settings;
mod signals;
mod simulation;
mod single;
mod table;
mod tally;
mod tls;
mod traced;
mod views;
mod worker;

pub use app::{App, Application};
pub use args::{DataSource, Exchange, LocalAccess, Technique, TestSource};
pub use bound::{Bound, Least};
pub use cut::Made;
pub use error::{AppError, PathDisplay, SettingError, TrainError, exit};
pub use exchanged::Exchanged;
pub use export::Exporter;
pub use plan::Plan;
pub use program::{Costs, Program, Saved, State, VirtualEpoch, run_program};
pub use replication::Replicated;
pub use report::{Access, Distribution, Epoch, Management, ModelSize, Report, SCHEMA, Simulated, Validation};
pub use run::{Outcome, run};
pub use sampling::Sampling;
pub use saved::{SavedRun, UnderWay};
pub use settings::Config;
pub use simulation::Simulation;
pub use views::Changes;
