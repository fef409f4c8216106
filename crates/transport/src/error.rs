//! Errors that occur before a fabric exists.

use crate::HandshakeError;
use intendant_core::NodeId;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Why a node does not get its connections.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The node cannot listen on the address.
    #[error("cannot listen on {address}: {}", advice(.error))]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the operating system says.
        error: io::Error,
    },
    /// A cluster without a token would be open to everyone who reaches its port.
    #[error(
        "{address} can be reached from other machines and the cluster has no token; give all nodes a token, \
         or listen on a loopback address"
    )]
    OpenBeyondLoopback {
        /// The address listened on.
        address: SocketAddr,
    },
    /// The node's own description contradicts itself.
    #[error("this node cannot be part of a cluster: {reason}")]
    Identity {
        /// What is wrong.
        reason: String,
    },
    /// The number of addresses is not the number of nodes.
    #[error("{addresses} addresses for a cluster of {nodes} nodes; there must be one per node")]
    Roster {
        /// Addresses given.
        addresses: usize,
        /// Nodes of the cluster.
        nodes: u16,
    },
    /// A peer refuses this node. Trying again would not help.
    #[error("node {peer} at {address} refuses the connection: {error}")]
    Refused {
        /// The peer.
        peer: NodeId,
        /// Its address.
        address: SocketAddr,
        /// Its reason.
        error: HandshakeError,
    },
    /// Not all peers were connected in time.
    #[error(
        "not all nodes were connected within {:.1} s; missing: {}",
        .within.as_secs_f64(),
        List(.missing)
    )]
    Incomplete {
        /// The time allowed.
        within: Duration,
        /// The missing peers, in order of rank.
        missing: Vec<Missing>,
    },
    /// No connections can be accepted.
    #[error("cannot accept connections of other nodes: {source}")]
    Deaf {
        /// Why.
        source: io::Error,
    },
    /// The node is configured to use RDMA, but cannot.
    #[error("--transport verbs: {0}")]
    Rdma(String),
    /// The cluster uses TLS, and this node is configured to use RDMA, which does not encrypt.
    #[error("--transport verbs: RDMA does not encrypt, but this cluster uses TLS; leave out one of them")]
    Unencrypted,
    /// The connections are so many that RDMA would need more locked memory than a node may lock.
    #[error(
        "--transport verbs: memory for {connections} connections is more than a node locks; use fewer nodes or channels, or tcp"
    )]
    Crowded {
        /// Connections of this node.
        connections: usize,
    },
    /// The operating system refuses another operation.
    #[error("cannot set up the connections: {0}")]
    Io(#[from] io::Error),
}

/// A peer that is not connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The peer.
    pub peer: NodeId,
    /// Its address.
    pub address: SocketAddr,
    /// What is known about the reason.
    pub reason: String,
}

struct List<'a>(&'a [Missing]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Missing { peer, address, reason }) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}node {peer} at {address} ({reason})")?;
        }
        Ok(())
    }
}

fn advice(error: &io::Error) -> String {
    // Only the kinds that a user can do something about have advice.
    if error.kind() == io::ErrorKind::AddrInUse {
        "the port is in use by another process; end it, or choose another port (0 lets the system choose)"
            .to_owned()
    } else if error.kind() == io::ErrorKind::AddrNotAvailable {
        "the address does not belong to this machine; choose one that does".to_owned()
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        "no permission; ports below 1024 are usually reserved, choose a higher one (0 lets the system choose)"
            .to_owned()
    } else {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_fits_the_error() {
        let cases = [
            (io::ErrorKind::AddrInUse, "in use"),
            (io::ErrorKind::AddrNotAvailable, "does not belong to this machine"),
            (io::ErrorKind::PermissionDenied, "below 1024"),
            (io::ErrorKind::OutOfMemory, "out of memory"),
        ];
        for (kind, expected) in cases {
            let said = advice(&kind.into());
            for (_, text) in cases {
                assert_eq!(said.contains(text), text == expected, "{kind:?}: {said}");
            }
        }
    }
}
