//! Why there is no window over verbs.

use std::io;

/// Why a network card, or a window over it, cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// The machine has no RDMA device, or this process does not see it.
    #[error(
        "no RDMA device: looked in /sys/class/infiniband_verbs and for /dev/infiniband/uverbs* ({what}). \
         Load the driver of the card and ib_uverbs, or make a device of an Ethernet interface: rdma link add \
         rxe0 type rxe netdev eth0"
    )]
    NoDevice {
        /// What was found instead.
        what: String,
    },
    /// There are devices, and no port of them fits.
    #[error("no port of an RDMA device fits. Looked for {wanted}. Found {found}")]
    NoPort {
        /// What was looked for.
        wanted: String,
        /// The ports, and why each does not fit.
        found: String,
    },
    /// The operating system does not let this process hold as much memory in place.
    #[error(
        "registering {bytes} bytes of memory with {device}: this process may lock {limit}. Raise the limit \
         (ulimit -l unlimited, or LimitMEMLOCK= of a service)"
    )]
    LockedMemory {
        /// Name of the device.
        device: String,
        /// Bytes of the segment.
        bytes: usize,
        /// The limit, as text.
        limit: String,
    },
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
    /// The operating system or the driver refused.
    #[error("{device}: {action}: {source}")]
    System {
        /// Name of the device, or the library.
        device: String,
        /// What was asked for.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
}
