#![doc = include_str!("../README.md")]
//!
//! A node's state is [`Shared`] (the store; all threads use it through `&self`), one [`Local`] per worker
//! (its outstanding operations) and one [`Channel`] per channel (`&mut self`: everything that messages
//! change).
//!
//! The life of an access: [`Shared::pull`] and its siblings serve the keys that are here, under one latch at
//! a time, and turn the others into [`Submission`]s, one per channel. In `intendant`, the worker sends them
//! to the channel's thread, which passes them to [`Channel::handle`]; in `sim`, the cluster does so. The
//! channel checks the keys again and sends requests. The owner's channel answers. If a worker has
//! localized the key and it is still on its way, the channel queues the access. The answer becomes a
//! [`Completion`], which the worker processes with [`Local::complete`].
//!
//! Start at `channel` (the turn: how an input passes through the mechanisms). Each mechanism has a folder and
//! owns its state: `access`, `location`, `relocation`, `replication`, `static_replicas`, `intent`. None
//! refers to another: it raises an effect, which the channel hands on. `outgoing` groups the messages of a
//! turn; `node` is the part that workers and channels share.
//!
//! This crate starts no threads, opens no sockets and reads no clock. The caller executes the [`Action`]s
//! that it returns.
#![forbid(unsafe_code)]

mod access;
mod channel;
mod error;
mod events;
mod input;
mod instances;
mod intent;
mod key_table;
mod local_access;
mod location;
mod look_timer;
mod node;
mod outgoing;
pub mod quiesce;
mod relocation;
mod replication;
mod settings;
mod static_replicas;
mod stats;
mod storage;
mod sync;
mod windows;

pub use channel::{Channel, Explanation};
pub use error::{AccessError, ProtocolError, Violation};
pub use input::{Action, Completion, Input, Kind, SnapshotAsk, Submission, Work};
pub use intendant_store::Row;
pub use local_access::LocalAccess;
pub use look_timer::LookTimer;
pub use node::clocks::{Advanced, Clocks};
pub use node::inspection::Inspection;
pub use node::local::{Local, Started};
pub use node::{ReplicationConfig, Shared, SharedConfig};
pub use quiesce::ChannelReport;
pub use settings::ClusterSettings;
pub use stats::{AccessStats, ManagementStats, NetworkStats, ReportedManagement};
pub use storage::Storage;
pub use windows::{WindowConfig, Windows, WindowsError};
