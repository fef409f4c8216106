//! Errors of this crate's calls.

use crate::capacity::CapacityError;
use intendant_control::{Failure, FailureKind, JoinError};
use intendant_core::{LayoutError, NodeId};
use intendant_engine::AccessError;
use intendant_launch::RendezvousError;
use intendant_sampling::SampleError;
use intendant_trace::TraceError;
use intendant_transport::TransportError;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

/// Why a call failed. `Debug` writes the same as `Display`, so that `fn main() -> Result<(), Error>` prints
/// it readably; [`crate::exit`] also ends with the right exit code.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call itself is wrong; nothing was done, and the cluster continues.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The cluster has ended. Every call on every node fails from now on.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The configuration makes no sense.
    #[error("{0}")]
    Config(String),
    /// The node does not fit into this machine.
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    /// The layout makes no sense.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The environment does not describe a cluster.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// The cluster refused this node, or was not complete in time.
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
        /// The cause.
        source: std::io::Error,
    },
    /// A meeting's name or payload is too long; nothing was done.
    #[error(
        "a meeting with a name of {name_bytes} bytes and a payload of {bytes}; at most {name_bytes_max} and \
         {bytes_max} are allowed"
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
    /// A trace cannot be written. If [`crate::Node::shutdown`] returns this error, the node has left in
    /// order.
    #[error(transparent)]
    Trace(#[from] TraceError),
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
        if let Self::Failed(failure) = self {
            return Some(failure);
        }
        if let Self::Join(error) = self { error.failure() } else { None }
    }

    /// The node that was lost, if the cluster failed for that reason.
    pub fn lost_node(&self) -> Option<NodeId> {
        self.failure().filter(|failure| failure.kind == FailureKind::PeerLost)?.node
    }

    /// The node that ended the cluster, or with which the others could not go on, if the cluster failed for
    /// that reason.
    pub fn ended_by(&self) -> Option<NodeId> {
        use FailureKind::{Aborted, Disagreement, Mismatch};
        self.failure().filter(|failure| matches!(failure.kind, Aborted | Disagreement | Mismatch))?.node
    }

    /// The exit code that programs end with: 4 if a peer was lost, 2 if the user has to change something,
    /// else 1.
    pub fn exit_code(&self) -> u8 {
        if let Some(failure) = self.failure() {
            return failure.kind.exit_code();
        }
        match self {
            Self::Join(error) => error.exit_code(),
            // A node is missing.
            Self::Transport(TransportError::Incomplete { .. }) => 4,
            Self::Transport(
                TransportError::Refused { .. }
                | TransportError::Bind { .. }
                | TransportError::Rdma(_)
                | TransportError::Unencrypted
                | TransportError::Crowded { .. }
                | TransportError::OpenBeyondLoopback { .. },
            ) => 2,
            Self::Access(_) | Self::Config(_) | Self::Capacity(_) | Self::Layout(_) | Self::Rendezvous(_) => {
                2
            }
            Self::Failed(_)
            | Self::Trace(_)
            | Self::Transport(_)
            | Self::Start { .. }
            | Self::Ticket { .. }
            | Self::Meeting { .. }
            | Self::Sample(_) => 1,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Ends a program: prints an error on standard error and turns it into the exit code that launchers
/// understand ([`Error::exit_code`]). For `fn main() -> ExitCode { intendant::exit(run()) }`.
pub fn exit(result: Result<(), Error>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    // One write prints the line in one piece, because the nodes of a run share standard error. If it is
    // closed, the exit code still shows the error.
    let _ = std::io::stderr().write_all(format!("error: {error}\n").as_bytes());
    ExitCode::from(error.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_peer_is_told_from_a_mistake_of_the_user_also_while_joining() {
        let lost = || Failure::lost(NodeId(2), "closed its connection without leaving");
        let aborted = Failure::aborted(NodeId(1), "interrupted");
        let over = |failure| JoinError::Over { reason: "it ended".into(), failure };
        let unreachable =
            JoinError::Unreachable { coordinator: "h:1".into(), seconds: 60, detail: "refused".into() };
        let cases = [
            (JoinError::Failed(lost()), 4, Some(NodeId(2))),
            (over(Some(lost())), 4, Some(NodeId(2))),
            (over(Some(aborted)), 1, None),
            (over(None), 2, None),
            (unreachable, 4, None),
            (JoinError::Incomplete { missing: vec![NodeId(1)], nodes: 2, seconds: 60 }, 4, None),
            (JoinError::Start(std::io::ErrorKind::OutOfMemory.into()), 1, None),
            (JoinError::Rank { rank: 2, nodes: 2 }, 2, None),
        ];
        for (error, code, node) in cases {
            let error = Error::from(error);
            assert_eq!((error.exit_code(), error.lost_node()), (code, node), "{error}");
        }
    }
}
