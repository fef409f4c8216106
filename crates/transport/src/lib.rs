#![doc = include_str!("../README.md")]
//!
//! Start at [`Fabric`]: it takes frames and yields [`FabricEvent`]s, for one channel of one node.
//! [`local::mesh`] connects nodes of one process; [`socket`] connects processes, after a handshake that
//! reports the exact reason if it refuses a node. [`Token`] is the secret that the handshake asks for; with
//! [`Tls`], both sides show certificates first, and TCP connections are encrypted.
//!
//! A frame is opaque bytes to this crate. It starts no threads: a fabric runs on the thread that polls it,
//! the handshake on the caller's runtime. It sends no heartbeats and does not reconnect: a link that breaks
//! is a lost peer, and `intendant` decides what follows.
#![forbid(unsafe_code)]

mod challenge;
mod error;
mod event;
mod fabric;
mod file;
pub mod local;
mod ring;
#[cfg(all(test, target_os = "linux"))]
mod ring_tests;
pub mod socket;
mod sync;
mod throttle;
pub mod tls;
mod token;

pub use challenge::Challenge;
pub use error::{Missing, TransportError};
pub use event::{FabricEvent, LinkError, Sent};
pub use fabric::{Fabric, FabricBuilder};
pub use file::{check_is_file, check_runtime_fits, is_readable_by_others};
pub use socket::{Address, HandshakeError, Transport, UnixName};
pub use throttle::{Suppressed, Throttle};
pub use tls::{ServerTls, TLS_NAME, Tls, TlsError, TlsFileError, TlsFiles};
pub use token::{TOKEN_BYTES, TOKEN_BYTES_MIN, Token, TokenError};
