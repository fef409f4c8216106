//! The fabric over TCP.
//!
//! [`Listener::bind`] makes a socket that peers can dial, before the cluster is known. [`Listener::mesh`]
//! turns it into one connection per peer and channel ([`Mesh`]); each side identifies itself first
//! ([`Identity`], [`HandshakeError`]). A [`Builder`] carries the connections of one channel to its thread,
//! and becomes a [`Fabric`] there.
//!
//! Frames are length-prefixed; a length beyond [`intendant_core::limits::FRAME_BYTES_MAX`] loses the link
//! before memory is taken. Small frames are copied together and written with one call; large ones are written
//! without a copy. `TCP_NODELAY` is set: batching is the caller's decision ([`crate::Fabric::try_flush`]),
//! not the kernel's.
//!
//! There is no encryption. The token excludes strangers and accidents, but it and the frames are sent in the
//! clear: if the network is not trusted, run over an encrypted one. The control plane, not this module, finds
//! out whether a silent peer is alive.

mod accept;
mod arrivals;
mod dial;
mod fabric;
mod hello;
mod incoming;
mod link;
mod mesh;
mod outgoing;
mod ready;
mod spare;

pub use arrivals::Arrivals;
pub use fabric::{Builder, Fabric};
pub use hello::{HandshakeError, Identity};
pub use mesh::{Listener, Mesh};
