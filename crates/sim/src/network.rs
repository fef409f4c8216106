//! The network between nodes: latency, bandwidth, and a NIC per node that all its connections share.
//!
//! A frame occupies the sending half of its sender's NIC, travels, and occupies the receiving half of its
//! receiver's NIC; each half serves one frame at a time, first come first served. The receiver takes a frame
//! in while it still leaves the sender (the network is cut-through), so an undisturbed frame takes one
//! latency and one transmission. Switches have room for everything: two senders to one receiver wait for each
//! other in front of the receiver, two receivers of one sender behind it.
//!
//! Absent on purpose: loss, which connections hide (a partition shows up as delay), and traffic within a
//! node.

use crate::delays::Spread;
use crate::facility::Facility;

/// How long frames take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// From the sender's NIC to the receiver's, whatever the length.
    pub latency: Spread,
    /// What a byte occupies a NIC, picoseconds; 0 if bandwidth is not limited.
    pub byte_ps: u64,
    /// Bytes that a frame has on the wire beyond its own: headers of the layers below.
    pub frame_bytes: u64,
}

impl Network {
    /// A NIC that this many bits per second go through.
    #[must_use]
    pub fn byte_ps_of(gigabits_per_second: f64) -> u64 {
        (8_000.0 / gigabits_per_second).round() as u64
    }

    /// Whether frames occupy NICs at all.
    pub(crate) const fn is_limited(&self) -> bool {
        self.byte_ps > 0
    }

    /// What a frame of `bytes` occupies a NIC, nanoseconds.
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
