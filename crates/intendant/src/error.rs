//! What calls of the facade can fail with.

use crate::control::{Failure, FailureKind, JoinError};
use crate::rendezvous::RendezvousError;
use intendant_core::{LayoutError, NodeId};
use intendant_engine::AccessError;
use intendant_sampling::SampleError;
use intendant_transport::TransportError;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call itself is wrong; nothing was done, and the cluster goes on.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The cluster has ended. Every call on every node fails from now on.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The configuration makes no sense.
    #[error("{0}")]
    Config(String),
    /// The layout makes no sense.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The environment does not describe a cluster.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// The cluster did not let this node in, or did not come together.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The nodes met but could not connect.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The operating system refused a thread or a runtime.
    #[error("cannot start {what}: {source}")]
    Start {
        /// What was to be started.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// A meeting's name or payload is too long; nothing was done.
    #[error(
        "a meeting with a name of {name_bytes} bytes and a payload of {bytes}; at most {name_bytes_max} and {bytes_max} are \
         allowed"
    )]
    Meeting {
        /// Length of the name.
        name_bytes: usize,
        /// The longest allowed name.
        name_bytes_max: usize,
        /// Length of the payload.
        bytes: usize,
        /// The longest allowed payload, given this node's number of workers.
        bytes_max: usize,
    },
    /// More samples were drawn than prepared.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// A ticket of another worker or of another kind.
    #[error("ticket {ticket} {problem}")]
    Ticket {
        /// Its number.
        ticket: u32,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl Error {
    /// The failure of the cluster, if this is one.
    fn failure(&self) -> Option<&Failure> {
        if let Self::Failed(failure) | Self::Join(JoinError::Failed(failure)) = self {
            Some(failure)
        } else {
            None
        }
    }

    /// The node that was lost, if that is what happened.
    pub fn lost_node(&self) -> Option<NodeId> {
        self.failure().filter(|failure| failure.kind == FailureKind::PeerLost)?.node
    }

    /// The exit code that programs end with: 4 if a peer was lost, 2 if the user has to change something, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(_) | Self::Join(JoinError::Failed(_)) => {
                if self.failure().is_some_and(|failure| failure.kind == FailureKind::PeerLost) {
                    4
                } else {
                    1
                }
            }
            Self::Access(_) | Self::Config(_) | Self::Layout(_) | Self::Rendezvous(_) | Self::Join(_) => 2,
            Self::Transport(_)
            | Self::Start { .. }
            | Self::Ticket { .. }
            | Self::Meeting { .. }
            | Self::Sample(_) => 1,
        }
    }
}
