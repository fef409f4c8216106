//! The errors of items.

use super::Way;
use intendant_control::{Failure, JoinError};
use intendant_core::NodeId;
use intendant_lapser::{DeclarationError, DirectoryError, FinishError, GetError, SetError, StartError};
use intendant_onesided::{ConnectError, WaitError, WindowError};
use intendant_segment::SegmentError;
use std::fmt;

/// Why nodes cannot exchange items.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cluster has ended. Every call on every node fails from now on.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The cluster refused this node, or was not complete in time.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// A node has sent something that is no declaration.
    #[error("node {node}: {source}")]
    Declaration {
        /// The node.
        node: usize,
        /// What is wrong.
        source: DeclarationError,
    },
    /// A node has sent something that is no name of its socket.
    #[error("node {node}: {source}")]
    Name {
        /// The node.
        node: usize,
        /// What is wrong.
        source: ConnectError,
    },
    /// A node has sent something to a gather that no node of this version sends.
    #[error("node {node} has sent to '{name}' {what}: run the same version on all nodes")]
    Gathered {
        /// The node.
        node: usize,
        /// The name of the gather.
        name: String,
        /// What it has sent.
        what: String,
    },
    /// More nodes than can be numbered, or none.
    #[error("{nodes} nodes in one process; there can be 1 to 65,536")]
    Nodes {
        /// The number of nodes.
        nodes: usize,
    },
    /// The declarations of the nodes do not match each other.
    #[error("the items of the nodes: {0}")]
    Directory(#[from] DirectoryError),
    /// The memory for the items is refused.
    #[error("the memory for items: {0}")]
    Segment(#[from] SegmentError),
    /// The memory of the nodes of this host could not be exchanged.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Nodes are on different hosts.
    #[error(
        "node {from} cannot map the memory of node {to}: they are on different hosts, or in different \
         network namespaces. Start all nodes on one host, or connect them by RDMA"
    )]
    Elsewhere {
        /// A node.
        from: NodeId,
        /// A node whose memory it cannot map.
        to: NodeId,
    },
    /// Nodes are configured to reach each other in different ways.
    #[error(
        "node {one} is to reach the memory of others by {}, node {other} by {}: choose the same, or auto",
        .ways[0], .ways[1]
    )]
    Ways {
        /// A node.
        one: NodeId,
        /// A node that disagrees.
        other: NodeId,
        /// Their configured ways.
        ways: [Way; 2],
    },
    /// A node cannot use RDMA.
    #[error("{}node {node} cannot use RDMA: {what}", Before(.elsewhere))]
    NoRdma {
        /// The node.
        node: NodeId,
        /// Why not.
        what: String,
        /// Two nodes that cannot map each other's memory, for which RDMA was tried.
        elsewhere: Option<(NodeId, NodeId)>,
    },
    /// The nodes cannot be connected over RDMA.
    #[cfg(feature = "verbs")]
    #[error(transparent)]
    Verbs(#[from] intendant_onesided::verbs::VerbsError),
    /// The segment does not fit the directory.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A value cannot be set.
    #[error(transparent)]
    Set(#[from] SetError),
    /// A node asks for a value of its own item that it has not set.
    #[error(
        "clock {wanted} of item {key} is needed, which this node produces itself and has set up to clock {last}: \
         it would wait for itself. Set the item first"
    )]
    OwnNotSet {
        /// The item.
        key: u64,
        /// The lowest clock that suffices.
        wanted: u64,
        /// Clock of the last value that was set; 0 if there is none.
        last: u64,
    },
    /// A get has no value.
    #[error(transparent)]
    Get(#[from] GetError),
    /// A node cannot finish.
    #[error(transparent)]
    Finish(#[from] FinishError),
    /// An operation was refused by the window.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// The operating system refuses to wait.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// The operating system has no random numbers.
    #[error("drawing a random number: {0}")]
    Random(String),
}

/// The reason for trying RDMA.
struct Before<'a>(&'a Option<(NodeId, NodeId)>);

impl fmt::Display for Before<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((from, to)) = self.0 else { return Ok(()) };
        write!(
            formatter,
            "node {from} cannot map the memory of node {to} (they are on different hosts, or in different \
             network namespaces), and "
        )
    }
}

impl Error {
    /// Whether every node finds this error from the messages of all nodes: then all nodes leave in order.
    pub(crate) const fn is_known_to_all(&self) -> bool {
        matches!(self, Self::Elsewhere { .. } | Self::Ways { .. } | Self::NoRdma { .. })
    }

    /// The exit code: 2 if the user has to change something, 4 if a node is missing, otherwise 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(failure) => failure.kind.exit_code(),
            Self::Join(error) => error.exit_code(),
            // The cause is not the user's request: the system refuses descriptors or a mapping.
            Self::Segment(SegmentError::System { .. }) => 1,
            Self::Declaration { .. }
            | Self::Name { .. }
            | Self::Gathered { .. }
            | Self::Nodes { .. }
            | Self::Directory(_)
            | Self::Segment(_)
            | Self::Elsewhere { .. }
            | Self::Ways { .. }
            | Self::NoRdma { .. } => 2,
            #[cfg(feature = "verbs")]
            Self::Verbs(_) => 1,
            Self::Connect(ConnectError::Ended { .. } | ConnectError::Late { .. }) => 4,
            Self::Connect(_)
            | Self::Start(_)
            | Self::Set(_)
            | Self::OwnNotSet { .. }
            | Self::Get(_)
            | Self::Finish(_)
            | Self::Window(_)
            | Self::Wait(_)
            | Self::Random(_) => 1,
        }
    }
}
