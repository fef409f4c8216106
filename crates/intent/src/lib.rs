#![doc = include_str!("../README.md")]
//!
//! | part | what it is | who uses it |
//! | --- | --- | --- |
//! | [`Board`] | the workers' clocks and what they have announced, per channel | workers and their loaders write, channels read |
//! | [`Schedule`] | what one worker has announced on one channel: not begun yet, or under way | the channel |
//! | [`Estimate`] | how many clocks a worker advances in a round of the channel, and so which intents must be acted on now | the channel |
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
