#![doc = include_str!("../README.md")]
//!
//! A node's state is [`Shared`] (the store; used by all threads through `&self`), one [`Local`] per worker (its outstanding
//! operations) and one [`Channel`] per channel (`&mut self`: what is outstanding, chains of operations, outgoing requests).
//!
//! The life of an access: [`Shared::pull`] and its siblings serve what is here, under one latch at a time, and turn the rest
//! into [`Submission`]s, one per channel. The shell hands them to [`Channel::handle`], which looks again, and sends requests;
//! the owner's channel answers, or queues what came before the key did; the answer becomes a [`Completion`] that the worker takes in with [`Local::complete`].
//!
//! Absent on purpose: threads, queues between them, sockets, clocks. Effects are [`Action`]s, executed by the caller.
#![forbid(unsafe_code)]

mod accesses;
mod active;
mod batch;
mod buffers;
mod channel;
mod checks;
mod copies;
mod decisions;
mod error;
mod fixed;
mod groups;
mod holders;
mod holding;
mod homes;
mod hubs;
mod input;
mod intents;
mod key_set;
mod local;
mod moves;
pub mod quiesce;
mod relocations;
mod replies;
mod shared;
mod snapshot;
mod staleness;
mod stats;

pub use channel::Channel;
pub use decisions::{Cause, Decision, DecisionKind};
pub use error::{AccessError, Violation};
pub use input::{Action, Completion, Input, Kind, SnapshotAsk, Submission};
pub use intents::Explanation;
pub use local::{AccessStats, Local, Started};
pub use quiesce::ChannelReport;
pub use shared::{Advanced, ReplicationConfig, Shared, SharedConfig, Storage};
pub use stats::ManagementStats;
