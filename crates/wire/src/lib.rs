#![doc = include_str!("../README.md")]
//!
//! A [`Message`] is what one channel engine says to another. [`Message::encode`] makes a frame of it, [`Message::decode`]
//! reads one from a peer that is not trusted: every length is checked against the frame before memory is taken, every
//! enumeration against its known values, and the frame must end where the message ends. `docs/protocol.md` has the layout
//! byte by byte; `tests/it/golden.rs` pins it.
//!
//! Absent on purpose: length prefixes (the transport's), value lengths (the layout's: the engine checks them).
#![forbid(unsafe_code)]

mod codec;
mod copies;
mod frame;
mod message;

pub use frame::{HEADER_BYTES, WireError};
pub use message::{
    AccessKind, Clock, ClockScope, Cursor, HandOver, HolderRow, IntentReport, Localize, Message, Moved, OpId,
    Origin, Reduce, Relocate, ReplicaRequest, ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind, Request,
    Response, SnapshotPart, SnapshotRequest,
};

/// Version of the data-plane protocol; nodes of different versions refuse each other in the handshake.
pub const PROTOCOL: u32 = 4;
