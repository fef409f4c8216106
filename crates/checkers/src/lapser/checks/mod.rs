//! What must hold in runs of Lapser; one file each. Each keeps an account of its own of the calls of workers,
//! the effects that nodes ask for, and the memory.
//!
//! | file | what holds |
//! | --- | --- |
//! | `torn` | a get returns a value that one set has set, with its clock |
//! | `fresh` | its clock is at least max(t − s, 0) for a get at clock t with slack s |
//! | `monotone` | the clocks that a node gets of an item never decrease |
//! | `answers` | a call has one answer; a get fails only if the producer is gone, or has finished with less |
//! | `writers` | a line of a segment has one writer; what a window reads is not changed until it is done |
//! | `traffic` | pushes are sets × consumers; nothing is read while a copy is new enough |
//! | `hinted` | a hint comes after the data that it announces; all that a batch writes is announced |
//! | `teardown` | no operation reaches a segment that was released |
//! | `progress` | all workers come to the end, or name a node that is gone |

mod answers;
mod fresh;
mod hinted;
mod monotone;
pub(super) mod progress;
pub(super) mod teardown;
mod torn;
mod traffic;
mod writers;

pub(super) use answers::{Answers, Call};
pub(super) use fresh::check as check_fresh;
pub(super) use hinted::{check as check_hinted, check_batch as check_hint_of_batch};
pub(super) use monotone::Monotone;
pub(super) use torn::{Sets, value_of};
pub(super) use traffic::Traffic;
pub(super) use writers::{Writer, Writers};
