//! Why there is no window over verbs.

use intendant_verbs::DeviceError;

/// Why a network card, or a window over it, cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// There is no card, or it refuses something.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device does not have room for a window of this many nodes.
    #[error("{device} has {limit} {what}; a window of {nodes} nodes needs {needed}")]
    TooSmall {
        /// Name of the device.
        device: String,
        /// What there is too little of.
        what: &'static str,
        /// How much the device has.
        limit: usize,
        /// How much is needed.
        needed: usize,
        /// Number of nodes.
        nodes: usize,
    },
    /// Not the number of a node.
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
    /// The address of a node does not fit to this node.
    #[error("the address of node {node}: {what}")]
    Mixed {
        /// The node.
        node: usize,
        /// What does not fit.
        what: String,
    },
}
