//! The data that two nodes exchange in order to connect.

/// The path to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The address of the port, as in `ibv_gid`.
    pub gid: [u8; 16],
    /// The local identifier of InfiniBand; 0 for RoCE.
    pub lid: u16,
    /// Whether the port is an Ethernet port.
    pub ethernet: bool,
    /// The greatest packet, in the enumeration of verbs: 1 means 256 bytes, 5 means 4,096.
    pub mtu: u8,
    /// The most reads that the node answers at the same time.
    pub reads: u8,
}

/// One end of a connection: the number of a queue pair, and the number of the first packet that it sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// The number that the card has given to the queue pair.
    pub number: u32,
    /// A random number of 24 bits.
    pub first_packet: u32,
}
