#![doc = include_str!("../README.md")]
//!
//! | part | what it is | who uses it |
//! | --- | --- | --- |
//! | [`Board`] | clocks and signalled intents, per channel | workers and loaders write, channels read |
//! | [`Schedule`] | intents of one worker on one channel that have not ended | the channel |
//! | [`Estimate`] | clocks that a worker advances per round: which intents are due | the channel |
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
pub use schedule::{Schedule, Signalled};
pub use timing::{Estimate, Timing, TimingConfig, TimingError};
