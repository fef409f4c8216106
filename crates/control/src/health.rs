//! Asks a coordinator from outside for the state of its cluster. It takes no seat and changes nothing.

use crate::credentials::{authorised, root_cause};
use crate::gathers::MESSAGE_BYTES_MAX;
use crate::proto::coordinator_client::CoordinatorClient;
use crate::proto::{HealthRequest, health_reply};
use crate::wire::{DialError, Dialled, dial};
use intendant_core::NodeId;
use intendant_transport::{Tls, TlsError, Token};
use std::io;
use std::time::Duration;

/// How long to wait for the answer.
const ANSWER: Duration = Duration::from_secs(3);

/// The state of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Its phase.
    pub state: State,
    /// The cluster's random number.
    pub cluster: u64,
    /// Software version of the coordinator.
    pub version: String,
    /// All nodes, by rank.
    pub members: Vec<MemberHealth>,
    /// Gathers that wait for a node.
    pub gathers: Vec<GatherHealth>,
    /// The reason for which it failed, if it did.
    pub failure: Option<String>,
}

/// The phase of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Waiting for nodes to join.
    Joining,
    /// Complete.
    Running,
    /// All nodes have left.
    Closed,
    /// It failed.
    Failed,
    /// A phase that this version does not know.
    Unknown,
}

/// One node, as the coordinator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberHealth {
    /// The node.
    pub node: NodeId,
    /// Whether it has joined and is still connected.
    pub presence: Presence,
    /// Its data address; empty before it joins.
    pub data_address: String,
    /// Time since the coordinator heard it.
    pub silent: Duration,
}

/// Whether a node has joined and is still connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It has not joined.
    Absent,
    /// It has joined.
    Present,
    /// It has said goodbye.
    Left,
    /// Its connection has ended.
    Ended,
}

/// A gather that is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatherHealth {
    /// Its name.
    pub name: String,
    /// The missing nodes.
    pub missing: Vec<NodeId>,
    /// How long it has been waiting.
    pub waiting: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HealthError {
    /// The coordinator did not answer.
    #[error("no coordinator answers at {address}: {detail}")]
    Unreachable {
        /// Its expected address.
        address: String,
        /// The error of the attempt.
        detail: String,
    },
    /// The coordinator and this process do not agree on a TLS connection.
    #[error("the coordinator at {address} cannot be asked: {error}")]
    Tls {
        /// Its address.
        address: String,
        /// The cause, and what to do.
        error: TlsError,
    },
    /// The coordinator refused the token.
    #[error(
        "the coordinator at {address} refused the token; use the cluster's INTENDANT_TOKEN or \
         INTENDANT_TOKEN_FILE"
    )]
    Token {
        /// Its address.
        address: String,
    },
}

/// Asks the coordinator at `address` ("host:port"), with TLS if the cluster uses it. Blocks for a few seconds
/// at most.
///
/// # Errors
/// If the coordinator does not answer, or refuses the token or the certificate.
pub fn health(address: &str, token: Option<&Token>, tls: Option<&Tls>) -> Result<Health, HealthError> {
    let unreachable = |detail: String| HealthError::Unreachable { address: address.to_owned(), detail };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| unreachable(error.to_string()))?;
    let asked = runtime.block_on(async {
        tokio::time::timeout(ANSWER, async {
            let dialled = reach(address, tls).await.map_err(|error| match error {
                DialError::Io(error) => unreachable(root_cause(&error)),
                DialError::Tls(error) => HealthError::Tls { address: address.to_owned(), error },
            })?;
            let client = CoordinatorClient::new(dialled.channel.clone());
            let mut client = client.max_decoding_message_size(MESSAGE_BYTES_MAX);
            client.health(authorised(HealthRequest {}, token)).await.map_err(|status| {
                if dialled.needs_tls() {
                    HealthError::Tls { address: address.to_owned(), error: TlsError::TlsPeer }
                } else if status.code() == tonic::Code::Unauthenticated {
                    HealthError::Token { address: address.to_owned() }
                } else {
                    unreachable(root_cause(&status))
                }
            })
        })
        .await
    });
    let reply =
        asked.map_err(|_| unreachable(format!("no answer within {} s", ANSWER.as_secs())))??.into_inner();
    let node = |rank: u32| NodeId(rank as u16);
    Ok(Health {
        state: match reply.state() {
            health_reply::State::Joining => State::Joining,
            health_reply::State::Running => State::Running,
            health_reply::State::Closed => State::Closed,
            health_reply::State::Failed => State::Failed,
            health_reply::State::Unknown => State::Unknown,
        },
        cluster: reply.cluster,
        members: reply
            .members
            .iter()
            .map(|member| MemberHealth {
                node: node(member.rank),
                presence: match member.state() {
                    health_reply::member::State::Absent => Presence::Absent,
                    health_reply::member::State::Present => Presence::Present,
                    health_reply::member::State::Left => Presence::Left,
                    health_reply::member::State::Ended => Presence::Ended,
                },
                data_address: member.data_address.clone(),
                silent: Duration::from_millis(member.silent_ms),
            })
            .collect(),
        gathers: reply
            .gathers
            .iter()
            .map(|gather| GatherHealth {
                name: gather.name.clone(),
                missing: gather.missing.iter().copied().map(node).collect(),
                waiting: Duration::from_millis(gather.waiting_ms),
            })
            .collect(),
        failure: (!reply.failure.is_empty()).then_some(reply.failure),
        version: reply.version,
    })
}

/// Connects to one of the addresses of `address`.
async fn reach(address: &str, tls: Option<&Tls>) -> Result<Dialled, DialError> {
    let mut error = DialError::Io(io::Error::new(io::ErrorKind::NotFound, "its name has no address"));
    for address in tokio::net::lookup_host(address).await.map_err(DialError::Io)? {
        match dial(address, tls).await {
            Ok(dialled) => return Ok(dialled),
            Err(failed) => error = failed,
        }
    }
    Err(error)
}
