//! The fabric over TCP.
//!
//! [`Listener::bind`] makes a socket that peers can dial, before the cluster is known. [`Listener::mesh`]
//! turns it into one connection per peer and channel ([`Mesh`]); each side shows who it is first
//! ([`Identity`], [`HandshakeError`]). A [`Builder`] carries the connections of one channel to its thread,
//! where it becomes a [`Fabric`].
//!
//! Frames are length-prefixed; a length beyond [`intendant_core::limits::FRAME_BYTES_MAX`] loses the link
//! before memory is taken. Small frames are written together, large ones from where they are. `TCP_NODELAY`
//! is set: batching is the caller's decision ([`crate::Fabric::try_flush`]), not the kernel's.
//!
//! Absent on purpose: encryption and liveness. The token keeps strangers and accidents out, but it and the
//! frames travel in the clear: where the network is not trusted, run over an encrypted one. Whether a silent
//! peer is alive is the control plane's to find out.

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
