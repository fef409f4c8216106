//! The events that a fabric reports to its channel.

use bytes::Bytes;
use intendant_core::NodeId;
use std::io;

/// Something that happened on a fabric. Frames of one peer arrive in the order in which it sent them, and
/// before the end of its link.
#[derive(Debug)]
pub enum FabricEvent {
    /// A frame arrived.
    Frame {
        /// The sender.
        from: NodeId,
        /// Its content.
        frame: Bytes,
    },
    /// A peer said goodbye: it has sent everything that it will ever send. Frames to it still arrive.
    Closed {
        /// The peer.
        peer: NodeId,
    },
    /// The link to a peer ended without a goodbye, or frames to it could not be delivered. It is the last
    /// event of this peer.
    Lost {
        /// The peer.
        peer: NodeId,
        /// How the link ended.
        error: LinkError,
    },
    /// After `close` of this side: everything is written, and every peer has said goodbye or is lost. It is
    /// the last event.
    Finished,
}

/// Why a link is lost.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The operating system reported an error, e.g. that the peer reset the connection.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The peer's end was dropped: its process has ended, or has left the mesh.
    #[error("the connection ended without a goodbye")]
    Vanished,
    /// The peer's end went away in the middle of a frame.
    #[error("the connection ended in the middle of a frame, {bytes} bytes into it")]
    Truncated {
        /// Bytes of the frame that had arrived, its prefix included.
        bytes: usize,
    },
    /// The peer announced a frame longer than the limit. No memory was reserved for it.
    #[error("a frame of {bytes} bytes was announced; allowed are {bytes_max}")]
    FrameTooLong {
        /// Bytes announced.
        bytes: u32,
        /// Bytes allowed.
        bytes_max: usize,
    },
    /// The peer kept sending after its goodbye.
    #[error("{bytes} bytes arrived after the goodbye")]
    AfterGoodbye {
        /// Bytes that had arrived after the goodbye.
        bytes: usize,
    },
}

/// What a fabric has sent: frames given to `send`, whether or not they have been written yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames.
    pub messages: u64,
    /// Their contents in bytes; length prefixes and protocol headers are not counted, so that all fabrics
    /// agree.
    pub bytes: u64,
    /// The part of `bytes` that went over Unix sockets or rings in shared memory, to nodes of the same host.
    pub unix_bytes: u64,
}
