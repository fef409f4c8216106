#![doc = include_str!("../README.md")]
//!
//! Start at [`Vote`], by which the members of a view choose the next one, and [`successor`], which says which
//! view they should choose. [`Muster`] has a process's answers to others, [`find`] is the program by which a
//! process asks them and leads, and [`Course`] decides what a process does from view to view. [`Holdings`]
//! are the parts of cuts that a process holds, and [`hold`] and [`load`] are the programs by which it fetches
//! others.
#![forbid(unsafe_code)]

mod course;
mod decide;
mod holdings;
mod lead;
mod message;
mod muster;
mod search;
mod transfer;
mod view;
mod vote;

pub use course::{Change, Course, Ended, Then};
pub use decide::{Standing, Undecided, quorum, successor};
pub use holdings::{Holdings, before};
pub use message::{Answer, Asked, Offer};
pub use muster::{Decision, Muster};
pub use search::{Found, NoAnswer, Notice, SearchError, World, find, leave};
pub use transfer::{Fetch, Missing, hold, load};
pub use view::{CutName, HeldCut, Next, Process, View};
pub use vote::{Ballot, Vote};
