//! Unix sockets in Linux's abstract namespace. Other systems have no such namespace: there, listening and
//! connecting fail, and nodes use TCP.
//!
//! A socket in this namespace has no permissions: any process of the network namespace can dial it, and can
//! take its name once the node has ended. So the dialler sends its token only to a process of its own user,
//! and the acceptor examines a connection as it does one over TCP.

use super::address::UnixName;
use crate::HandshakeError;
use rustix::net::sockopt;
use rustix::process::geteuid;
use std::io;
use std::os::unix::net::UnixListener;
use tokio::net::UnixStream;

/// Bytes that the sending half of a connection may hold (the kernel counts twice as many, for what it stores
/// beside them).
const SEND_BUFFER_BYTES: usize = 208 << 10;

/// A new socket of a random name, and the name.
#[cfg(target_os = "linux")]
pub(crate) fn listen() -> io::Result<(UnixName, UnixListener)> {
    let mut number = [0; 16];
    getrandom::fill(&mut number).map_err(|error| io::Error::other(error.to_string()))?;
    let name = UnixName::new(u128::from_le_bytes(number));
    let socket = UnixListener::bind_addr(&address(name)?)?;
    socket.set_nonblocking(true)?;
    Ok((name, socket))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn listen() -> io::Result<(UnixName, UnixListener)> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
fn address(name: UnixName) -> io::Result<std::os::unix::net::SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    std::os::unix::net::SocketAddr::from_abstract_name(name.in_namespace())
}

/// Connects to the node of this host that listens at `name`. Fails at once if there is none, or if it belongs
/// to another user.
#[cfg(target_os = "linux")]
pub(crate) async fn connect(name: UnixName) -> io::Result<UnixStream> {
    let stream = UnixStream::connect_addr(&address(name)?.into()).await?;
    check_user(&stream).map_err(io::Error::other)?;
    Ok(stream)
}

#[cfg(not(target_os = "linux"))]
pub(crate) async fn connect(_: UnixName) -> io::Result<UnixStream> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether the process at the other end belongs to the same user.
pub(crate) fn check_user(stream: &UnixStream) -> Result<(), HandshakeError> {
    let (ours, theirs) = (geteuid().as_raw(), stream.peer_cred()?.uid());
    if ours == theirs { Ok(()) } else { Err(HandshakeError::User { ours, theirs }) }
}

pub(crate) fn tune(stream: &UnixStream) -> io::Result<()> {
    Ok(sockopt::set_socket_send_buffer_size(stream, SEND_BUFFER_BYTES)?)
}
