//! Connections.

use crate::lane::Lane;
use bytes::Bytes;
use intendant_wire::{Packer, Packing, Unpacker};

/// A connection: one direction between two nodes, for one channel.
pub(super) struct Link {
    /// Its two ends.
    pub(super) packer: Packer,
    pub(super) unpacker: Unpacker,
    /// Frames on their way to the receiver's NIC.
    pub(super) under_way: Lane<Frame>,
    /// Frames that the receiver's NIC takes in.
    pub(super) coming_in: Lane<Frame>,
}

impl Link {
    pub(super) fn new(packing: Packing, element_bytes: usize) -> Self {
        Self {
            packer: Packer::new(packing, element_bytes),
            unpacker: Unpacker::new(element_bytes),
            under_way: Lane::default(),
            coming_in: Lane::default(),
        }
    }
}

/// A frame in flight on a connection.
pub(super) struct Frame {
    /// Number of the frame on its connection.
    pub(super) number: u64,
    pub(super) frame: Bytes,
    /// Charged length.
    pub(super) bytes: u64,
    /// Time at which its last byte reaches the receiver's NIC.
    pub(super) sent_ns: u64,
}
