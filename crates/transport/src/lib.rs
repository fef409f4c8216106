#![doc = include_str!("../README.md")]
//!
//! Start at [`Fabric`]: frames in, [`FabricEvent`]s out, for one channel of one node. [`local::mesh`]
//! connects nodes of one process; [`tcp`] connects processes, after a handshake that tells precisely why a
//! node is refused. [`Token`] is the secret that the handshake asks for.
//!
//! Absent on purpose: messages (a frame is opaque bytes), threads (a fabric lives on the thread that polls
//! it), heartbeats and reconnection (a link that breaks is a lost peer; what follows from it is decided
//! above).
#![forbid(unsafe_code)]

mod error;
mod event;
mod fabric;
pub mod local;
mod lock;
pub mod tcp;
mod throttle;
mod token;

pub use error::{Missing, TransportError};
pub use event::{FabricEvent, LinkError, Sent};
pub use fabric::{Fabric, FabricBuilder};
pub use lock::lock;
pub use tcp::HandshakeError;
pub use throttle::{Suppressed, Throttle};
pub use token::{TOKEN_BYTES, TOKEN_BYTES_MIN, Token, TokenError};
