//! What a node sends to the coordinator when it joins, and the answer.

use intendant_core::ElementType;
use std::net::SocketAddr;

/// How a node introduces itself when it joins. Everything but the address and the software version must be
/// equal on all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Version of the data-plane protocol.
    pub protocol: u32,
    /// Version of the software, for messages. Versions may differ as long as `protocol` does not.
    pub version: String,
    /// Digest of the layout and of everything else that must be equal.
    pub layout: u64,
    /// Element type of the values.
    pub element: ElementType,
    /// Number of channels per node.
    pub channels: u16,
    /// Further settings by name, causes before what follows from them: of two nodes, the first difference is
    /// reported.
    pub settings: Vec<(String, String)>,
    /// The address of this node's data plane for the other nodes.
    pub data_address: SocketAddr,
}

/// The nodes of a complete cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    /// A random number that no other cluster has.
    pub cluster: u64,
    /// The data addresses of the nodes, by rank.
    pub nodes: Vec<SocketAddr>,
}
