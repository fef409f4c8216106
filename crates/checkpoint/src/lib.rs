#![doc = include_str!("../README.md")]
//!
//! Start at [`Folder`], which has the cuts of a run. [`Folder::begin`] starts a cut, [`Folder::write`] writes
//! a part ([`Rows`]) of it, [`Folder::commit`] makes it a checkpoint. [`Folder::latest`] finds the newest one
//! that is whole, and [`Checkpoint`] reads values from it by key. [`Checkpoint::verify`] names all damage,
//! and [`Values`] reads all values.
//!
//! [`CutDriver`] is the program of a worker for the cuts of its run: operations without I/O. [`protocol`]
//! says when workers make a cut, and when it is committed.
//!
//! Not in this crate: the exchange of votes, the copying of values, and the state that a run needs besides
//! its parameters. A manifest contains this state as JSON that only its writer understands.
#![forbid(unsafe_code)]

mod address;
mod check;
mod driver;
mod error;
mod folder;
mod instances;
mod keeper;
mod ledger;
mod local;
mod manifest;
mod names;
mod part;
pub mod protocol;
mod read;
#[cfg(feature = "s3")]
mod remote;
mod schema;
mod store;

pub use address::is_address;
pub use driver::{CutDriver, CutEvent, CutOp, CutRules, Meeting};
pub use error::CheckpointError;
pub use folder::{Claim, Folder, Latest};
pub use keeper::Keeper;
pub use ledger::{Best, Unsaved};
pub use manifest::{Manifest, Part, Range};
pub use part::Rows;
pub use read::{Checkpoint, Values};
pub use schema::SCHEMA;
