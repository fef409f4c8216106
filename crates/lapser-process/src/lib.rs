#![doc = include_str!("../README.md")]
//!
//! Start at [`Lobby`]. Inside, `members` is a node's place among the others, `process` is the protocol,
//! driven over a window with blocking calls, and `rdma` connects windows over RDMA.
#![forbid(unsafe_code)]

mod error;
mod lobby;
mod members;
mod process;
mod rdma;
mod way;

pub use error::Error;
pub use intendant_control::{Failure, FailureKind, JoinError};
pub use intendant_core::NodeId;
pub use intendant_lapser::{Declaration, Directory, Item, Pace, Stats, Variant, WORDS_MAX, Want};
pub use intendant_membership::Aborter;
pub use intendant_onesided::{MappedWindow, Window, in_process};
pub use lobby::Lobby;
pub use process::{Get, Process, Traffic};
pub use way::{AnyWindow, Way};
