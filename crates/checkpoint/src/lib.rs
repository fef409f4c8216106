#![doc = include_str!("../README.md")]
//!
//! Start at [`Folder`], where the cuts of a run lie. [`Folder::begin`] starts a cut, [`Folder::write`] writes
//! a part ([`Rows`]) of it, [`Folder::commit`] makes it a checkpoint. [`Folder::latest`] finds the newest one
//! that is whole, and [`Checkpoint`] reads values from it by key. [`Checkpoint::verify`] names all damage,
//! and [`Values`] reads all values.
//!
//! [`protocol`] says when workers make a cut, and when it is committed; it is a program without I/O.
//!
//! Not in this crate: who exchanges votes and copies values, and what a run needs besides its parameters. A
//! manifest carries the latter as JSON that only its writer understands.
#![forbid(unsafe_code)]

mod check;
mod error;
mod folder;
mod local;
mod manifest;
mod part;
pub mod protocol;
mod read;
#[cfg(feature = "s3")]
mod remote;
mod store;
mod values;

pub use error::CheckpointError;
pub use folder::{Claim, Folder, Latest};
pub use manifest::{Manifest, Part, Range, SCHEMA};
pub use part::Rows;
pub use read::Checkpoint;
pub use store::is_address;
pub use values::Values;
