//! What is known of a run: sums of its epochs, its report, history and table, its progress and metrics.
//!
//! `tally` is what workers exchange at the end of an epoch, and `sums` what is made of it. `schema` is the
//! report, which `results` writes and `table` shows; `history` has its epochs while the run goes on.
//! `progress` is for a person at a terminal, `metrics` for programs that ask.

mod bound;
mod exchanged;
mod history;
pub(crate) mod metrics;
pub(crate) mod numbers;
mod progress;
mod results;
mod schema;
mod sums;
mod table;
mod tally;

pub use bound::{Bound, Least};
pub use exchanged::{Exchanged, VirtualTime};
pub(crate) use history::History;
pub(crate) use progress::Progress;
pub(crate) use results::finish;
pub(crate) use schema::test;
pub use schema::{
    Access, Changes, Epoch, Made, Management, ModelSize, Replicated, Report, SCHEMA, Sampling, Simulated,
    Validation,
};
pub(crate) use sums::{EpochSum, Totals, add_first_loss, first_loss, least};
pub(crate) use tally::Tally;
