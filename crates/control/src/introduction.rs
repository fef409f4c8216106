//! The message that a node sends to the coordinator when it joins, and the answer.

use intendant_core::ElementType;
use intendant_transport::Address;

/// The data plane of a node: everything but the address must be equal on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPlane {
    /// Element type of the values.
    pub element: ElementType,
    /// Number of channels per node.
    pub channels: u16,
    /// The address at which the other nodes reach it.
    pub address: Address,
}

/// How a node introduces itself when it joins. Everything but the data plane's address and the software
/// version must be equal on all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Version of the data-plane protocol.
    pub protocol: u32,
    /// Version of the software, for messages. Versions may differ as long as `protocol` does not.
    pub version: String,
    /// Digest of the layout and of everything else that must be equal.
    pub layout: u64,
    /// Further settings by name. A setting comes before the settings that follow from it, because only the
    /// first difference between two nodes is reported.
    pub settings: Vec<(String, String)>,
    /// Its data plane; `None` on all nodes if the cluster has none.
    pub data: Option<DataPlane>,
}

/// The nodes of a complete cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    /// A random number that no other cluster has.
    pub cluster: u64,
    /// The addresses at which the nodes' data planes are reached, by rank; empty if the cluster has none.
    pub nodes: Vec<Address>,
}
