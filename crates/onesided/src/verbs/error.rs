//! Why there is no window over verbs.

use intendant_verbs::DeviceError;

/// Why a network card cannot be used, or a window over it cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// There is no card, or it refuses an operation.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device does not have room for a window of this many nodes.
    #[error("{device} has {limit} {what}; a window of {nodes} nodes needs {needed}")]
    TooSmall {
        /// Name of the device.
        device: String,
        /// The resource that is too scarce.
        what: &'static str,
        /// How much the device has.
        limit: usize,
        /// How much is needed.
        needed: usize,
        /// Number of nodes.
        nodes: usize,
    },
    /// The rank is not the number of a node, or there are too many nodes.
    #[error(
        "there is no node {rank} among {nodes}: they are numbered from 0, and there are at most {nodes_max}"
    )]
    Rank {
        /// The number.
        rank: usize,
        /// The number of nodes.
        nodes: usize,
        /// The limit.
        nodes_max: usize,
    },
    /// Bytes that are not the address of an endpoint.
    #[error("an address of {bytes} bytes is none of an endpoint: {what}")]
    Address {
        /// Number of bytes.
        bytes: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// The address of a node does not fit this node.
    #[error("the address of node {node}: {what}")]
    Mixed {
        /// The node.
        node: usize,
        /// What does not fit.
        what: String,
    },
}
