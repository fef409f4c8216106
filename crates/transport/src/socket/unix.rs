//! Unix sockets in Linux's abstract namespace. Other systems have no such namespace: there, listening and
//! connecting fail, and nodes use TCP.
//!
//! A socket in this namespace has no permissions: any process of the network namespace can dial it, and can
//! take its name once the node has ended. So the dialler sends its token only to a process of its own user,
//! and the acceptor examines a connection as it does one over TCP.

use super::address::UnixName;
use super::rings::Shared;
use crate::HandshakeError;
#[cfg(target_os = "linux")]
use intendant_segment::passing;
use rustix::net::sockopt;
use rustix::process::geteuid;
use std::io;
use std::os::unix::net::UnixListener;
#[cfg(target_os = "linux")]
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Bytes that the sending half of a connection may hold (the kernel counts twice as many, for its own data
/// beside them).
const SEND_BUFFER_BYTES: usize = 208 << 10;

/// Listens on a new socket with a random name. Returns the name and the socket.
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

/// Connects to the node of this host that listens at `name`. Fails at once if no node listens there, or if it
/// belongs to another user.
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

/// Memory for rings; `None` if this process cannot have any.
#[cfg(target_os = "linux")]
pub(crate) fn memory(capacity: usize) -> Option<Shared> {
    match Shared::new(capacity) {
        Ok(shared) => Some(shared),
        Err(error) => {
            tracing::debug!("a connection within this host uses no rings: {error}");
            None
        }
    }
}

/// Sends bytes, and with them the descriptor of the memory of rings. Returns how many of the bytes were sent,
/// at least 1.
#[cfg(target_os = "linux")]
pub(crate) async fn send_with_memory(
    stream: &UnixStream,
    bytes: &[u8],
    shared: &Shared,
) -> io::Result<usize> {
    let descriptors: Vec<_> = shared.descriptor().into_iter().collect();
    stream.async_io(Interest::WRITABLE, || passing::send(stream, bytes, &descriptors)).await
}

/// Fills `bytes`, and returns the memory that came with them, if it can be used.
#[cfg(target_os = "linux")]
pub(crate) async fn read_with_memory(
    stream: &UnixStream,
    bytes: &mut [u8],
) -> Result<Option<Shared>, HandshakeError> {
    let (mut filled, mut descriptors) = (0, Vec::new());
    while filled < bytes.len() {
        let part = &mut bytes[filled..];
        let received = stream.async_io(Interest::READABLE, || passing::receive(stream, part)).await?;
        if received.bytes == 0 {
            return Err(HandshakeError::Closed);
        }
        filled += received.bytes;
        descriptors.extend(received.descriptors);
    }
    let [descriptor] = match <[_; 1]>::try_from(descriptors) {
        Ok(descriptor) => descriptor,
        Err(others) => {
            tracing::debug!("a connection within this host uses no rings: {} descriptors came", others.len());
            return Ok(None);
        }
    };
    Ok(Shared::open(descriptor)
        .inspect_err(|error| tracing::debug!("a connection within this host uses no rings: {error}"))
        .ok())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn memory(_: usize) -> Option<Shared> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(crate) async fn send_with_memory(_: &UnixStream, _: &[u8], _: &Shared) -> io::Result<usize> {
    Ok(0)
}

#[cfg(not(target_os = "linux"))]
pub(crate) async fn read_with_memory(
    stream: &mut UnixStream,
    bytes: &mut [u8],
) -> Result<Option<Shared>, HandshakeError> {
    tokio::io::AsyncReadExt::read_exact(stream, bytes).await?;
    Ok(None)
}

pub(crate) fn tune(stream: &UnixStream) -> io::Result<()> {
    Ok(sockopt::set_socket_send_buffer_size(stream, SEND_BUFFER_BYTES)?)
}
