#![doc = include_str!("../README.md")]
//!
//! Start at [`decide`]. [`Muster`] is the state machine around it, and [`Holdings`] the parts of cuts that it
//! decides about.
#![forbid(unsafe_code)]

mod decide;
mod holdings;
mod muster;

pub use decide::{CutName, Decision, HeldCut, Next, Offer, Process, View, decide};
pub use holdings::{Holdings, before};
pub use muster::{Answer, Asked, Muster};
