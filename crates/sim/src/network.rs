//! The network model: latency, bandwidth, and one NIC per node that all its connections share.
//!
//! A frame occupies the sending half of its sender's NIC, travels, and occupies the receiving half of its
//! receiver's NIC. Each half serves one frame at a time, in order of arrival. The network is cut-through: the
//! receiver takes in a frame while the sender still sends it, so an undisturbed frame takes one latency and
//! one transmission. Switches have unlimited buffers: two senders to one receiver compete for the receiver's
//! NIC, two receivers of one sender for the sender's NIC.
//!
//! The model has no loss, which connections hide (a partition appears as delay), and no traffic within a
//! node.

use crate::facility::Facility;
use crate::spread::Spread;

/// Parameters of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Latency from the sender's NIC to the receiver's, independent of length.
    pub latency: Spread,
    /// Time for which a byte occupies a NIC, picoseconds; 0 if bandwidth is unlimited.
    pub byte_ps: u64,
    /// Bytes per frame on the wire in addition to its content: headers of lower layers.
    pub frame_bytes: u64,
}

impl Network {
    /// Picoseconds per byte of a NIC with this bandwidth.
    #[must_use]
    pub fn byte_ps_of(gigabits_per_second: f64) -> u64 {
        (8_000.0 / gigabits_per_second).round() as u64
    }

    /// Whether bandwidth is limited.
    pub(crate) const fn is_limited(&self) -> bool {
        self.byte_ps > 0
    }

    /// Time for which a frame of `bytes` occupies a NIC, nanoseconds.
    pub(crate) const fn occupied_ns(&self, bytes: u64) -> u64 {
        (bytes + self.frame_bytes).saturating_mul(self.byte_ps).div_ceil(1_000)
    }
}

/// The two halves of a node's NIC.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nic {
    pub(crate) sending: Facility,
    pub(crate) receiving: Facility,
}
