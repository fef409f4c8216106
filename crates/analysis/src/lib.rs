#![doc = include_str!("../README.md")]
//!
//! Start at [`Run`], the events of all nodes on one clock. [`Allocation`] tells where keys were, and when;
//! [`Summary`] and [`Comparison`] are numbers. All results can be serialised.
//!
//! Absent on purpose: command lines, servers, clocks. The caller decides what to print or to send.
#![forbid(unsafe_code)]

mod affinity;
mod align;
mod allocation;
mod compare;
mod error;
mod folder;
mod history;
mod instants;
mod keys;
mod merged;
pub mod palette;
mod record;
mod replay;
mod rows;
mod run;
mod summary;
pub mod svg;
mod track;
mod waits;

pub use affinity::Affinity;
pub use align::{Alignment, Method};
pub use allocation::{Allocation, By, KeyCounts, Moment};
pub use compare::{Comparison, Doubt, Line};
pub use error::AnalysisError;
pub use folder::{WHAT_TO_NAME, files_of};
pub use history::{Decision, Gap, KeyHistory, Span};
pub use instants::Instant;
pub use keys::Keys;
pub use merged::{SCHEMA, part_of};
pub use record::{Flat, Stamped};
pub use replay::{Inconsistencies, Place};
pub use rows::{MOVING, NodeRow, Row, Stretch, UNKNOWN, Window};
pub use run::{Limits, NodeInfo, Problem, Run};
pub use summary::{Durations, Kinds, Link, Management, Marked, Roles, Staleness, Summary};
pub use waits::{Causes, Wait, Why};
