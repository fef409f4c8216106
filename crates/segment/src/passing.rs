//! Sending the descriptors of segments to other processes, over Unix sockets.
//!
//! Descriptors are sent along with bytes: a reader that does not ask for descriptors closes them. The caller
//! decides which processes may have the memory, and what the bytes mean.
//! [`Segment::open`](crate::Segment::open) checks the descriptors that arrive.

use rustix::cmsg_space;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Maximum number of descriptors in one message.
pub const DESCRIPTORS_MAX: usize = 2;

/// What arrived at a socket.
#[derive(Debug)]
pub struct Received {
    /// Bytes that were written to the buffer. 0: the other end is closed, or has sent an empty packet.
    pub bytes: usize,
    /// More descriptors were sent than have arrived: more than [`DESCRIPTORS_MAX`], or more than this process
    /// may have.
    pub truncated: bool,
    /// The descriptors. They close when dropped, and are not passed to other programs.
    pub descriptors: Vec<OwnedFd>,
}

/// Sends bytes, and descriptors with the first of them. Does not wait. Returns the number of bytes that were
/// sent, which may be less than `bytes` over a stream.
///
/// # Errors
/// `WouldBlock` if the socket takes nothing at the moment; otherwise if the operating system refuses, or for
/// more than [`DESCRIPTORS_MAX`] descriptors. No signal is raised.
pub fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::NOBUFS.into());
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)?)
}

/// Receives bytes and the descriptors that were sent with them. Does not wait.
///
/// # Errors
/// `WouldBlock` if there is nothing at the moment, `Interrupted` after a signal; otherwise if the connection
/// broke.
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            descriptors.extend(sent);
        }
    }
    let truncated = received.flags.contains(ReturnFlags::CTRUNC);
    Ok(Received { bytes: received.bytes, truncated, descriptors })
}
