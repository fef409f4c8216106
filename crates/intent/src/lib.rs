#![doc = include_str!("../README.md")]
//!
//! | part | what it is | who uses it |
//! | --- | --- | --- |
//! | [`Board`] | clocks and announcements of workers, per channel | workers and loaders write, channels read |
//! | [`Schedule`] | what one worker has announced on one channel: not begun yet, or under way | the channel |
//! | [`Estimate`] | clocks that a worker advances in a round of the channel: which intents are due | the channel |
//! | [`PoissonQuantile`] | the quantile that this needs | [`Timing`] |
#![forbid(unsafe_code)]

mod board;
#[cfg(test)]
mod board_tests;
mod quantile;
mod schedule;
mod sync;
mod timing;

pub use board::{Board, FINISHED};
pub use quantile::PoissonQuantile;
pub use schedule::{Intent, Schedule};
pub use timing::{Estimate, Timing, TimingConfig, TimingError};
