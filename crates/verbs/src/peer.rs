//! What a node tells another one, so that they connect.

/// The way to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// As in `ibv_gid`.
    pub gid: [u8; 16],
    /// Of InfiniBand; 0 for RoCE.
    pub lid: u16,
    /// Whether the port is one of Ethernet.
    pub ethernet: bool,
    /// The enumeration of verbs: 1 is 256 bytes, 5 is 4,096.
    pub mtu: u8,
    /// Reads that the node answers at the same time.
    pub reads: u8,
}

/// One end of a connection: the number of a queue pair, and that of the first packet that it sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// The number that the card has given it.
    pub number: u32,
    /// A random number of 24 bits.
    pub first_packet: u32,
}
