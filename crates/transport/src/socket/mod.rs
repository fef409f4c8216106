//! The fabric over sockets: Unix domain sockets between processes of one host, TCP between hosts.
//!
//! [`Listener::bind`] makes sockets that peers can dial, before the cluster is known. [`Listener::mesh`]
//! turns them into one connection per peer and channel ([`Mesh`]); each side identifies itself first
//! ([`Identity`], [`HandshakeError`]). A [`Builder`] carries the connections of one channel to its thread,
//! and becomes a [`Fabric`] there.
//!
//! A node tells the others its [`Address`]: the address of its TCP socket and the random name of its Unix
//! socket. Peers dial the name first. Only a process of the same host and network namespace finds it; all
//! others use TCP. Handshake, frames and limits are the same on both, and a fabric may have links of both
//! kinds. [`Transport::Tcp`] uses no Unix sockets.
//!
//! With [`Transport::Shm`] on both sides, the bytes of a connection go through two rings in shared memory,
//! whose descriptor the acceptor sends over the Unix socket. The socket then wakes a side that sleeps, and
//! ends when the peer's process ends.
//!
//! With [`Transport::Verbs`] on both sides, the bytes go through a network card, beside a TCP connection that
//! ends when the peer's process ends. It needs the feature `verbs`.
//!
//! Frames are length-prefixed; on a length beyond [`intendant_core::limits::FRAME_BYTES_MAX`], a node gives
//! up the link before it takes memory. Small frames are copied together and written with one call; large ones
//! are written without a copy. `TCP_NODELAY` is set on TCP: batching is the caller's decision
//! ([`crate::Fabric::try_flush`]), not the kernel's.
//!
//! With [`Listener::with_tls`], TCP connections are TLS connections, on which both sides show certificates
//! before the handshake above. Unix sockets stay plain: their bytes do not leave the kernel of the host, and
//! both sides check that the other belongs to the same user. Without TLS the token excludes strangers and
//! accidents, but it and the frames are sent in the clear. The control plane, not this module, finds out
//! whether a silent peer is alive.

mod accept;
mod address;
mod arrivals;
mod carrier;
mod cores;
mod dial;
mod fabric;
mod hello;
mod incoming;
mod link;
mod mesh;
mod outgoing;
#[cfg_attr(not(all(feature = "verbs", target_os = "linux")), path = "no_rdma.rs")]
mod rdma;
mod ready;
mod rings;
mod secure;
mod spare;
mod stream;
mod unix;
mod unix_stream;

pub use address::{Address, InvalidUnixName, Transport, UnixName};
pub use arrivals::Arrivals;
pub use fabric::{Builder, Fabric};
pub use hello::{HandshakeError, Identity};
pub use mesh::{Links, Listener, Mesh};
