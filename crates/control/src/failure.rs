//! The reasons for which a cluster ends, and for which a node cannot join.

use crate::introduction::DataPlane;
use crate::proto::{Failed, Refused, Setting, failed, refused};
use intendant_core::{ElementType, NodeId};
use intendant_transport::TlsError;
use std::fmt;
use std::net::SocketAddr;

/// Why a cluster ended before all nodes had left. Every node of the cluster gets the same failure, unless it
/// could not reach the coordinator any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub kind: FailureKind,
    /// The node to blame: the node that was lost, or that ended the cluster. `None` if no node is to blame,
    /// e.g. if a link is.
    pub node: Option<NodeId>,
    /// The rest of the sentence that starts with the node, e.g. "stopped answering for 5.0 s". Without a
    /// node, a whole sentence. For [`FailureKind::Aborted`], the application's own words.
    pub reason: String,
}

/// The kinds of [`Failure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// A node died, froze, or cannot be reached.
    PeerLost,
    /// A node ended the cluster deliberately.
    Aborted,
    /// A node with other settings, data or token wanted to join while the cluster was forming.
    Mismatch,
    /// Nodes disagree about the next step: one left while another waits for it, or one sent what the protocol
    /// does not allow.
    Disagreement,
    /// The call itself is wrong; the cluster goes on.
    Misuse,
    /// This node has left the cluster.
    Left,
}

impl FailureKind {
    /// The exit code with which programs end: 4 if a peer was lost, 2 if the user has to change something,
    /// else 1.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::PeerLost => 4,
            Self::Mismatch => 2,
            Self::Aborted | Self::Disagreement | Self::Misuse | Self::Left => 1,
        }
    }
}

impl Failure {
    /// Node `node` is lost: it `reason`.
    pub fn lost(node: NodeId, reason: impl Into<String>) -> Self {
        Self { kind: FailureKind::PeerLost, node: Some(node), reason: reason.into() }
    }

    /// A node that wants to join differs: it `reason`.
    pub(crate) fn mismatch(node: Option<NodeId>, reason: impl Into<String>) -> Self {
        Self { kind: FailureKind::Mismatch, node, reason: reason.into() }
    }

    /// Node `node` and the coordinator do not hear each other, although both run.
    pub(crate) fn gave_up(node: NodeId, silent_ms: u64) -> Self {
        let seconds = silent_ms as f64 / 1e3;
        let reason = format!(
            "node {node} gave up because it did not hear the coordinator (node 0) for {seconds:.1} s; the \
             coordinator runs, so the link between them is broken or full"
        );
        Self { kind: FailureKind::PeerLost, node: None, reason }
    }

    /// Node `node` ended the cluster.
    pub fn aborted(node: NodeId, reason: impl Into<String>) -> Self {
        Self { kind: FailureKind::Aborted, node: Some(node), reason: reason.into() }
    }

    /// Node `node` disagrees with the others about the next step.
    pub fn disagreement(node: NodeId, reason: impl Into<String>) -> Self {
        Self { kind: FailureKind::Disagreement, node: Some(node), reason: reason.into() }
    }

    /// A wrong call on this node.
    pub fn misuse(reason: impl Into<String>) -> Self {
        Self { kind: FailureKind::Misuse, node: None, reason: reason.into() }
    }

    pub(super) fn to_wire(&self) -> Failed {
        let kind = match self.kind {
            FailureKind::PeerLost => failed::Kind::PeerLost,
            FailureKind::Aborted => failed::Kind::Aborted,
            FailureKind::Mismatch => failed::Kind::Mismatch,
            FailureKind::Disagreement => failed::Kind::Disagreement,
            FailureKind::Misuse | FailureKind::Left => failed::Kind::Unknown,
        };
        Failed {
            kind: kind.into(),
            rank: self.node.map(|node| u32::from(node.0)),
            reason: self.reason.clone(),
            missing: Vec::new(),
        }
    }

    pub(super) fn from_wire(failed: &Failed) -> Self {
        let kind = match failed.kind() {
            failed::Kind::Aborted => FailureKind::Aborted,
            failed::Kind::PeerLost => FailureKind::PeerLost,
            failed::Kind::Mismatch => FailureKind::Mismatch,
            failed::Kind::Disagreement | failed::Kind::Incomplete | failed::Kind::Unknown => {
                FailureKind::Disagreement
            }
        };
        let node = failed.rank.and_then(|rank| u16::try_from(rank).ok()).map(NodeId);
        Self { kind, node, reason: failed.reason.clone() }
    }
}

/// The most bytes of the reason that a node gives for ending the cluster.
pub(super) const REASON_BYTES_MAX: usize = 4096;

/// Cuts a reason to a length that fits into a message and into a line of a log.
pub(super) fn shorten(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(REASON_BYTES_MAX));
    text
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.node, self.kind) {
            (Some(node), FailureKind::Aborted) => write!(f, "node {node} ended the run: {}", self.reason),
            (Some(NodeId(0)), FailureKind::PeerLost) => write!(f, "the coordinator (node 0) {}", self.reason),
            (Some(node), _) => write!(f, "node {node} {}", self.reason),
            (None, _) => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for Failure {}

/// The reason for which a node could not join. None of these errors affects a complete cluster; a mismatch
/// ends a cluster that is still forming.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The token is missing, or differs from the cluster's.
    #[error(
        "the coordinator at {coordinator} refused this node's token ({ours}); give every node of a cluster \
         the same INTENDANT_TOKEN or INTENDANT_TOKEN_FILE, or none of them any"
    )]
    Token {
        /// The coordinator's address.
        coordinator: String,
        /// How this node's token differs.
        ours: &'static str,
    },
    /// This node and the coordinator do not agree on a TLS connection.
    #[error("this node cannot join the cluster at {coordinator}: {error}")]
    Tls {
        /// The coordinator's address.
        coordinator: String,
        /// The cause, and what to do.
        error: TlsError,
    },
    /// The node has another protocol.
    #[error(
        "the cluster speaks protocol {cluster} (intendant {cluster_version}), this node {ours} (intendant \
         {our_version}); start all nodes from the same build"
    )]
    Protocol {
        /// Protocol of the cluster.
        cluster: u64,
        /// Its software version.
        cluster_version: String,
        /// Protocol of this node.
        ours: u64,
        /// This node's software version.
        our_version: String,
    },
    /// The node was started for another number of nodes.
    #[error(
        "the cluster has {cluster} nodes, this node was started for {ours}; start all with the same \
         WORLD_SIZE"
    )]
    WorldSize {
        /// Nodes of the cluster.
        cluster: u64,
        /// Nodes that this node expects.
        ours: u64,
    },
    /// A rank beyond the number of nodes.
    #[error("rank {rank} is out of range: the cluster's {nodes} nodes have ranks from 0")]
    Rank {
        /// This node's rank.
        rank: u64,
        /// Nodes of the cluster.
        nodes: u64,
    },
    /// A setting has another value.
    #[error(
        "this node and node 0 were started differently: {name} is {ours} on this node and {cluster} on node 0"
    )]
    Setting {
        /// Its name.
        name: String,
        /// Its value on node 0.
        cluster: String,
        /// Its value on this node.
        ours: String,
    },
    /// The node has another model layout.
    #[error(
        "the cluster's layout has digest {cluster:016x}, this node's {ours:016x}: data or configuration \
         differ; start all nodes with the same key ranges, value lengths, key order and seed"
    )]
    Layout {
        /// Digest of the cluster's layout.
        cluster: u64,
        /// Digest of this node's layout.
        ours: u64,
    },
    /// The node has another element type.
    #[error("the cluster's values are {cluster}, this node's {ours}; start all nodes with the same --float")]
    Element {
        /// The cluster's element type.
        cluster: ElementType,
        /// This node's element type.
        ours: ElementType,
    },
    /// The node has another number of channels.
    #[error(
        "the cluster has {cluster} channels per node, this node {ours}; start all nodes with the same number"
    )]
    Channels {
        /// Channels of the cluster.
        cluster: u64,
        /// Channels of this node.
        ours: u64,
    },
    /// The rank is taken.
    #[error("rank {rank} is taken: another process joined the cluster as node {rank}{}", at(detail))]
    DuplicateRank {
        /// The rank.
        rank: u64,
        /// Where the other process is.
        detail: String,
    },
    /// The cluster has ended, or this rank has left it.
    #[error("the cluster is over: {reason}")]
    Over {
        /// How it ended.
        reason: String,
        /// The failure, if it ended by one.
        failure: Option<Failure>,
    },
    /// The advertised data address is unusable.
    #[error("the data address '{address}' of this node cannot be reached by others: {detail}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// What is wrong.
        detail: String,
    },
    /// Not all nodes joined in time.
    #[error("waited {seconds} s for all {nodes} nodes; {} did not join", list(missing))]
    Incomplete {
        /// The missing nodes.
        missing: Vec<NodeId>,
        /// Nodes of the cluster.
        nodes: usize,
        /// How long the coordinator waited.
        seconds: u64,
    },
    /// The cluster ended while this node waited for the others.
    #[error("the cluster ended before it was complete: {0}")]
    Failed(Failure),
    /// The coordinator did not answer.
    #[error(
        "no coordinator answered at {coordinator} within {seconds} s ({detail}); is node 0 running, and are \
         MASTER_ADDR and MASTER_PORT those of node 0?"
    )]
    Unreachable {
        /// Its expected address.
        coordinator: String,
        /// How long this node tried.
        seconds: u64,
        /// The error of the last attempt.
        detail: String,
    },
    /// A program that is no coordinator answered.
    #[error("what answers at {coordinator} is not a coordinator of this protocol: {detail}")]
    NotACoordinator {
        /// Its address.
        coordinator: String,
        /// Its answer.
        detail: String,
    },
    /// The coordinator's port is in use.
    #[error(
        "port {} of {} is in use by another process, so that node 0 cannot serve the coordinator there; \
         choose another MASTER_PORT on all nodes (under torchrun, whose agent holds MASTER_PORT itself, set \
         INTENDANT_MASTER_PORT)",
        address.port(),
        address.ip()
    )]
    PortInUse {
        /// The address.
        address: SocketAddr,
    },
    /// Node 0 cannot listen on the coordinator's address.
    #[error(
        "node 0 cannot listen on {address}: {source}; MASTER_ADDR must be an address of the machine of node 0"
    )]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The cluster would be reachable from other machines without a token.
    #[error(
        "node 0 would serve on {address}, where other machines could join or stop the run, and there is no \
         token; make one (`openssl rand -hex 32 > FILE; chmod 600 FILE`) and set INTENDANT_TOKEN_FILE=FILE \
         on all nodes (mpirun: -x INTENDANT_TOKEN_FILE=FILE), or MASTER_ADDR=127.0.0.1 if all run on this \
         machine"
    )]
    Open {
        /// The address.
        address: SocketAddr,
    },
    /// The descriptor that the launcher left is not a listening socket.
    #[error(
        "INTENDANT_LISTEN_FD={fd}: {detail}; it is set by the launcher for node 0 only, do not set it by hand"
    )]
    Inherited {
        /// The descriptor.
        fd: i32,
        /// What is wrong.
        detail: String,
    },
    /// The operating system refused a thread or socket.
    #[error("cannot start the control plane: {0}")]
    Start(std::io::Error),
}

/// " at ADDRESS", or nothing.
fn at(address: &str) -> String {
    if address.is_empty() { String::new() } else { format!(" from {address}") }
}

/// "node 3" or "nodes 1, 2".
pub(super) fn list(nodes: &[NodeId]) -> String {
    let ranks: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
    format!("node{} {}", if ranks.len() == 1 { "" } else { "s" }, ranks.join(", "))
}

/// This node's own values, for the text of a refusal.
pub(super) struct Joining {
    pub(super) version: String,
    pub(super) data: Option<DataPlane>,
    pub(super) coordinator: String,
}

impl JoinError {
    /// The failure of the cluster, if that is the reason.
    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        if let Self::Failed(failure) | Self::Over { failure: Some(failure), .. } = self {
            Some(failure)
        } else {
            None
        }
    }

    /// The exit code with which programs end: 4 if a node is missing, 2 if the user has to change something,
    /// else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if let Some(failure) = self.failure() {
            failure.kind.exit_code()
        } else if matches!(self, Self::Unreachable { .. } | Self::Incomplete { .. }) {
            4
        } else {
            if matches!(self, Self::Start(_)) { 1 } else { 2 }
        }
    }

    /// The error for the coordinator's refusal.
    pub(super) fn from_refusal(refused: Refused, joining: &Joining) -> Self {
        let why = refused.why();
        let Refused { cluster, joining: ours, detail, failure, cluster_setting, joining_setting, .. } =
            refused;
        match why {
            refused::Why::Protocol => {
                let our_version = joining.version.clone();
                Self::Protocol { cluster, cluster_version: detail, ours, our_version }
            }
            refused::Why::WorldSize => Self::WorldSize { cluster, ours },
            refused::Why::Rank => Self::Rank { rank: ours, nodes: cluster },
            refused::Why::Layout => Self::Layout { cluster, ours },
            refused::Why::Setting => {
                let Setting { name, value: cluster } = cluster_setting.unwrap_or_default();
                Self::Setting { name, cluster, ours: joining_setting.unwrap_or_default().value }
            }
            refused::Why::Element => match (
                u8::try_from(cluster).ok().and_then(ElementType::from_tag),
                joining.data.map(|data| data.element),
            ) {
                (Some(cluster), Some(ours)) => Self::Element { cluster, ours },
                (None, _) | (_, None) => Self::NotACoordinator {
                    coordinator: joining.coordinator.clone(),
                    detail: format!("its element type has the tag {cluster}, that of this node {ours}"),
                },
            },
            refused::Why::Channels => Self::Channels { cluster, ours },
            refused::Why::DuplicateRank => Self::DuplicateRank { rank: ours, detail },
            refused::Why::Over => {
                Self::Over { reason: detail, failure: failure.as_ref().map(Failure::from_wire) }
            }
            refused::Why::Address => match joining.data {
                Some(data) => Self::Address { address: data.address.tcp, detail },
                None => Self::NotACoordinator { coordinator: joining.coordinator.clone(), detail },
            },
            refused::Why::Unknown => Self::NotACoordinator {
                coordinator: joining.coordinator.clone(),
                detail: format!(
                    "it refused this node for a reason that this version does not know: {detail}"
                ),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_reads_as_a_sentence_that_names_the_node() {
        let lost = |node| Failure::lost(NodeId(node), "stopped answering for 5.0 s").to_string();
        assert_eq!(lost(2), "node 2 stopped answering for 5.0 s");
        assert_eq!(lost(0), "the coordinator (node 0) stopped answering for 5.0 s");
        assert_eq!(
            Failure::aborted(NodeId(1), "loss is NaN").to_string(),
            "node 1 ended the run: loss is NaN"
        );
    }

    #[test]
    fn a_failure_survives_the_wire() {
        for failure in [
            Failure::lost(NodeId(3), "closed its connection without leaving"),
            Failure::aborted(NodeId(0), "interrupted"),
            Failure::disagreement(NodeId(1), "left while node 2 waits for it in 'epoch'"),
        ] {
            assert_eq!(Failure::from_wire(&failure.to_wire()), failure);
        }
    }
}
