//! The part of a node that workers and channels share, and what a worker does by itself.
//!
//! [`shared`] has the store and the configuration, [`fast_path`] the calls that a worker's thread serves
//! without its channels, [`clocks`] what workers report of their clocks, staleness bounds and intents,
//! [`local`] the outstanding operations of one worker.

pub(crate) mod clocks;
pub(crate) mod fast_path;
pub(crate) mod local;
pub(crate) mod shared;
