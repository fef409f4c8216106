//! The tests of this crate from outside: one program, a module per subject.

mod broken_peers;
mod common;
mod fabrics;
mod handshake;
#[cfg(all(target_os = "linux", feature = "verbs"))]
mod rdma;
#[cfg(target_os = "linux")]
mod rings;
mod tls;
