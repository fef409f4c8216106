#![doc = include_str!("../README.md")]
//!
//! One channel engine sends a [`Message`] to another. [`Message::encode`] makes a frame of it.
//! [`Message::decode`] reads a frame from a peer that is not trusted: it checks every length against the
//! frame before it allocates memory, checks every enumeration against its known values, and requires that the
//! frame ends where the message ends. Each family of messages has a module with its types, their layout, and
//! how they are encoded and decoded. `docs/protocol.md` has the layout of all frames; `tests/it/golden.rs`
//! pins it byte by byte.
//!
//! `docs/extending.md` lists what a new message needs. A message that older nodes do not know requires a new
//! [`PROTOCOL`] version.
//!
//! [`Packer`] shortens the frames of a connection, and [`Unpacker`] reads them at its other end.
//!
//! Frames have no length prefixes (the transport adds them) and no value lengths (the layout has them; the
//! engine checks against it).
#![forbid(unsafe_code)]

mod access;
mod class;
mod clock;
mod error;
mod frame;
mod intent;
mod location;
mod message;
mod origin;
mod packing;
mod reduce;
mod relocation;
mod replica;
mod snapshot;

pub use access::{AccessKind, Request, Response};
pub use class::{MessageClass, MessageFamily};
pub use clock::{Clock, ClockScope};
pub use error::{HeaderField, WireError};
pub use frame::HEADER_BYTES;
pub use intent::IntentReport;
pub use location::{Locate, Located, Void};
pub use message::Message;
pub use origin::{OpId, Origin};
pub use packing::{Packer, Packing, Saved, Unpacker};
pub use reduce::Reduce;
pub use relocation::{HandOver, HolderRow, Localize, Moved, Relocate};
pub use replica::{ReplicaRequest, ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind};
pub use snapshot::{Cursor, SnapshotPart, SnapshotRequest};

/// Version of the data-plane protocol; nodes of different versions refuse each other in the handshake.
pub const PROTOCOL: u32 = 7;
