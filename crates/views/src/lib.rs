#![doc = include_str!("../README.md")]
//!
//! Start at [`decide`]. [`Muster`] is what a process answers others, [`find`] how it asks them and leads, and
//! [`Holdings`] the parts of cuts that are decided about.
#![forbid(unsafe_code)]

mod decide;
mod holdings;
mod muster;
mod search;

pub use decide::{CutName, Decision, HeldCut, Next, Offer, Process, View, decide};
pub use holdings::{Holdings, before};
pub use muster::{Answer, Asked, Muster};
pub use search::{Found, NoAnswer, Notice, SearchError, World, find, leave};
