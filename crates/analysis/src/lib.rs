#![doc = include_str!("../README.md")]
//!
//! Start at [`Run`], the events of all nodes on one clock. [`Allocation`] says where keys were, and when;
//! [`Summary`] and [`Comparison`] contain numbers. All results can be serialised.
//!
//! This crate deliberately has no command line, no server and no clock. The caller decides what to print or
//! to send.
#![forbid(unsafe_code)]

mod align;
mod allocation;
mod compare;
mod error;
mod folder;
mod keys;
mod limits;
mod merged;
mod node;
pub mod palette;
mod record;
mod replay;
mod run;
mod summary;
pub mod svg;
mod track;

pub use align::{Alignment, Method};
pub use allocation::{
    Affinity, Allocation, By, Causes, Decision, Gap, Instant, KeyCounts, KeyHistory, MOVING, Moment, NodeRow,
    Row, Span, Stretch, UNKNOWN, Wait, Why, Window,
};
pub use compare::{Comparison, Doubt, Line};
pub use error::AnalysisError;
pub use folder::{WHAT_TO_NAME, files_of};
pub use keys::Keys;
pub use limits::Limits;
pub use merged::{SCHEMA, part_of};
pub use node::NodeInfo;
pub use record::{Flat, Stamped};
pub use replay::{Inconsistencies, Place};
pub use run::{Problem, Run};
pub use summary::{Durations, Kinds, Link, Management, Marked, Roles, Staleness, Summary};
