//! A node's side of the control plane: the state that blocking calls share with the one task that reads the stream.

use super::failure::{Failure, FailureKind, JoinError, Joining, shorten};
use super::gathers::{Assembly, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, cut};
use super::proto::coordinator_client::CoordinatorClient;
use super::proto::{Abort, Beat, FromMember, Join, Leave, Lost, ToMember, failed, from_member, to_member};
use super::server::{TOKEN_HEADER, TOKEN_PREFIX};
use super::watch::{BEAT_US, Pace, TURN_US, Watch};
use super::{Introduction, Roster};
use crate::clock::MonotonicClock;
use crate::rendezvous::Rendezvous;
use intendant_core::{NodeId, Tick};
use intendant_transport::Token;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Streaming};

/// How long the coordinator has to pass its verdict on a lost connection.
const VERDICT_US: u64 = 2_000_000;

/// How long the coordinator has to pass on a deliberate end.
const ABORT: Duration = Duration::from_millis(1500);

/// Pause between two attempts to reach the coordinator.
const RETRY: Duration = Duration::from_millis(100);

/// Time for one attempt to connect.
const CONNECT: Duration = Duration::from_secs(3);

/// What a coordinator does that dies.
const GONE: &str = "closed its connection without leaving";

/// Waiting that is worth a line in the log.
const PATIENCE_US: u64 = 2_000_000;

type Callback = Box<dyn FnOnce(&Failure) + Send>;
type Answer = std::sync::mpsc::Sender<Result<Roster, JoinError>>;

/// What the handle and the control thread share.
pub(super) struct Shared {
    pub(super) rank: NodeId,
    nodes: usize,
    clock: MonotonicClock,
    state: Mutex<State>,
    changed: Condvar,
    pub(super) stop: Notify,
}

#[derive(Default)]
struct State {
    /// To the coordinator; gone once the cluster is over for this node.
    line: Option<mpsc::UnboundedSender<FromMember>>,
    end: Option<End>,
    leaving: bool,
    gathers: BTreeMap<String, Slot>,
    callbacks: Vec<Callback>,
    suspicion: Option<(Tick, Failure)>,
}

enum End {
    Closed,
    Failed(Failure),
}

enum Slot {
    Open(Assembly),
    Done(Vec<Vec<u8>>),
}

impl State {
    fn send(&self, kind: from_member::Kind) {
        if let Some(line) = &self.line {
            // If the task is gone, it has left the reason in `end`.
            let _ = line.send(FromMember { kind: Some(kind) });
        }
    }

    fn failure(&self) -> Option<Failure> {
        match &self.end {
            Some(End::Failed(failure)) => Some(failure.clone()),
            Some(End::Closed) | None => None,
        }
    }
}

impl Shared {
    pub(super) fn new(rank: NodeId, nodes: usize, clock: MonotonicClock) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self { rank, nodes, clock, state, changed, stop: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        self.lock().failure()
    }

    pub(super) fn on_failure(&self, callback: Callback) {
        let mut state = self.lock();
        match state.failure() {
            Some(failure) => {
                drop(state);
                callback(&failure);
            }
            None => state.callbacks.push(callback),
        }
    }

    pub(super) fn gather(&self, name: &str, payload: Vec<u8>) -> Result<Vec<Vec<u8>>, Failure> {
        let misuse = |reason: String| Err(Failure::misuse(format!("gather '{name}': {reason}")));
        if name.len() > NAME_BYTES_MAX {
            return misuse(format!("a name has at most {NAME_BYTES_MAX} bytes, this one {}", name.len()));
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return misuse(format!(
                "a payload has at most {PAYLOAD_BYTES_MAX} bytes, this one {}",
                payload.len()
            ));
        }
        let mut state = self.lock();
        if let Some(failure) = state.failure() {
            return Err(failure);
        }
        if state.leaving || state.end.is_some() {
            let reason = format!("has left the cluster before it called gather '{name}'");
            return Err(Failure { kind: FailureKind::Left, node: Some(self.rank), reason });
        }
        if state.gathers.contains_key(name) {
            return misuse("another thread of this node waits in it; use different names".to_owned());
        }
        state.gathers.insert(name.to_owned(), Slot::Open(Assembly::new(self.nodes)));
        for part in cut(name, payload) {
            state.send(from_member::Kind::Contribution(part));
        }
        loop {
            if matches!(state.gathers.get(name), Some(Slot::Done(_)))
                && let Some(Slot::Done(payloads)) = state.gathers.remove(name)
            {
                return Ok(payloads);
            }
            match &state.end {
                Some(End::Failed(failure)) => return Err(failure.clone()),
                Some(End::Closed) => {
                    let reason = format!("left the cluster while it waited in '{name}'");
                    return Err(Failure { kind: FailureKind::Left, node: Some(self.rank), reason });
                }
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    pub(super) fn report_lost(&self, node: NodeId, reason: &str) {
        let mut state = self.lock();
        if state.leaving || state.end.is_some() {
            return;
        }
        state.send(from_member::Kind::Lost(Lost { rank: node.0.into(), reason: shorten(reason.to_owned()) }));
        let failure = Failure::lost(node, format!("is lost to node {}: {reason}", self.rank));
        state.suspicion.get_or_insert((self.clock.now().after(VERDICT_US), failure));
    }

    pub(super) fn abort(&self, reason: &str) {
        let state = self.lock();
        if state.end.is_some() {
            return;
        }
        state.send(from_member::Kind::Abort(Abort { reason: shorten(reason.to_owned()) }));
        let waiting = self.changed.wait_timeout_while(state, ABORT, |state| state.end.is_none());
        let (state, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        drop(state);
        self.finish(End::Failed(Failure::aborted(self.rank, reason)));
    }

    pub(super) fn leave(&self) -> Result<(), Failure> {
        let mut state = self.lock();
        if !state.leaving && state.end.is_none() {
            state.leaving = true;
            state.send(from_member::Kind::Leave(Leave {}));
        }
        loop {
            match &state.end {
                Some(End::Closed) => return Ok(()),
                Some(End::Failed(failure)) => return Err(failure.clone()),
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Ends this node's half of the stream.
    pub(super) fn hang_up(&self) {
        self.lock().line = None;
    }

    /// The cluster is over for this node; the first reason stays.
    fn finish(&self, end: End) {
        let mut state = self.lock();
        state.line = None;
        if state.end.is_some() {
            return;
        }
        state.end = Some(end);
        let callbacks = std::mem::take(&mut state.callbacks);
        let failure = state.failure();
        drop(state);
        self.changed.notify_all();
        if let Some(failure) = failure {
            callbacks.into_iter().for_each(|callback| callback(&failure));
        }
    }
}

/// A stream to the coordinator on which this node has asked for its seat.
pub(super) struct Stream {
    inbound: Streaming<ToMember>,
    joining: Joining,
}

/// Reaches the coordinator, which may not be up yet, and sends `introduction`. Node 0 knows its `own` coordinator's address.
///
/// A connection that stands is not given up for a new one: node 0 may still be reading its data while the launcher's socket
/// already accepts for it, and a `Join` left behind in an abandoned connection would take this node's seat. One that breaks is
/// replaced, unless nobody listens any more: then node 0 was there and has died.
pub(super) async fn connect(
    shared: &Shared,
    rendezvous: &Rendezvous,
    introduction: &Introduction,
    own: Option<SocketAddr>,
) -> Result<Stream, JoinError> {
    let coordinator = format!("{}:{}", rendezvous.host, rendezvous.port);
    let seconds = rendezvous.deadline.as_secs();
    let deadline = tokio::time::Instant::now() + rendezvous.deadline;
    let started = shared.clock.now();
    let mut mentioned = false;
    let mut was_there = false;
    loop {
        let detail = match dial(rendezvous, own).await {
            Ok(channel) => {
                was_there = true;
                let asked = ask(shared, rendezvous, introduction, channel, &coordinator);
                match tokio::time::timeout_at(deadline, asked).await {
                    Ok(Asked::Stream(inbound)) => {
                        let joining = Joining {
                            version: introduction.version.clone(),
                            element: introduction.element,
                            address: introduction.data_address,
                            coordinator,
                        };
                        return Ok(Stream { inbound, joining });
                    }
                    Ok(Asked::TurnedAway(error)) => return Err(error),
                    Ok(Asked::Broken(detail)) => format!("the connection broke: {detail}"),
                    Err(_) => {
                        let detail = "something accepts connections there, but says nothing".to_owned();
                        return Err(JoinError::Unreachable { coordinator, seconds, detail });
                    }
                }
            }
            Err(Undialled { refused: true, .. }) if was_there => {
                return Err(JoinError::Failed(Failure::lost(NodeId(0), GONE)));
            }
            Err(Undialled { detail, .. }) => detail,
        };
        if tokio::time::Instant::now() + RETRY >= deadline {
            return Err(JoinError::Unreachable { coordinator, seconds, detail });
        }
        if !mentioned && shared.clock.now() >= started.after(PATIENCE_US) {
            mentioned = true;
            tracing::info!("waiting for the coordinator at {coordinator} ({detail})");
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// No connection stands.
struct Undialled {
    /// What the last attempt met.
    detail: String,
    /// Whether there is an address, and the machine of every address says that nobody listens.
    refused: bool,
}

/// One attempt at every address of the coordinator.
async fn dial(rendezvous: &Rendezvous, own: Option<SocketAddr>) -> Result<Channel, Undialled> {
    let addresses: Vec<SocketAddr> = match own {
        Some(own) => vec![own],
        None => match tokio::net::lookup_host((rendezvous.host.as_str(), rendezvous.port)).await {
            Ok(addresses) => addresses.collect(),
            Err(error) => {
                let detail = format!("its name cannot be resolved: {error}");
                return Err(Undialled { detail, refused: false });
            }
        },
    };
    let mut undialled =
        Undialled { detail: "its name has no address".into(), refused: !addresses.is_empty() };
    for address in addresses {
        // An address is always a valid authority; a failure here would show as an unreachable coordinator.
        let dialled = match Endpoint::from_shared(format!("http://{address}")) {
            Ok(endpoint) => endpoint.connect_timeout(CONNECT).tcp_nodelay(true).connect().await,
            Err(error) => Err(error),
        };
        match dialled {
            Ok(channel) => return Ok(channel),
            Err(error) => {
                let cause = innermost(&error);
                let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
                undialled.refused &= kind == Some(std::io::ErrorKind::ConnectionRefused);
                undialled.detail = cause.to_string();
            }
        }
    }
    Err(undialled)
}

/// What asking for a seat came to.
enum Asked {
    /// A stream; the verdict comes on it.
    Stream(Streaming<ToMember>),
    /// Somebody answered that this node does not get in.
    TurnedAway(JoinError),
    /// The connection ended before there was an answer.
    Broken(String),
}

/// Asks for this node's seat on a connection that stands.
async fn ask(
    shared: &Shared,
    rendezvous: &Rendezvous,
    introduction: &Introduction,
    channel: Channel,
    coordinator: &str,
) -> Asked {
    let mut client = CoordinatorClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let (line, outbound) = mpsc::unbounded_channel();
    shared.lock().line = Some(line);
    shared.lock().send(from_member::Kind::Join(Join {
        protocol: introduction.protocol,
        version: introduction.version.clone(),
        rank: rendezvous.rank.0.into(),
        nodes: rendezvous.nodes as u32,
        layout: introduction.layout,
        element: introduction.element as u32,
        channels: introduction.channels.into(),
        data_address: introduction.data_address.to_string(),
    }));
    let request = authorised(UnboundedReceiverStream::new(outbound), rendezvous.token.as_ref());
    let status = match client.member(request).await {
        Ok(response) => return Asked::Stream(response.into_inner()),
        Err(status) => status,
    };
    // An answer, of whatever kind, arrives as a status without a source; a violation of HTTP/2 has a code of its own.
    let broken = std::error::Error::source(&status).is_some()
        && matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled);
    let coordinator = coordinator.to_owned();
    if broken {
        Asked::Broken(root_cause(&status))
    } else if status.code() == Code::Unauthenticated {
        let ours =
            if rendezvous.token.is_some() { "another token than the cluster's" } else { "none is set" };
        Asked::TurnedAway(JoinError::Token { coordinator, ours })
    } else {
        Asked::TurnedAway(JoinError::NotACoordinator { coordinator, detail: root_cause(&status) })
    }
}

/// The innermost source of an error; the outer ones say "transport error".
pub(super) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    innermost(error).to_string()
}

fn innermost<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause
}

/// A request with the cluster's token.
pub(super) fn authorised<T>(message: T, token: Option<&Token>) -> Request<T> {
    let mut request = Request::new(message);
    let value =
        token.map(|token| format!("{TOKEN_PREFIX}{}", token.to_hex()).parse::<MetadataValue<Ascii>>());
    if let Some(Ok(mut value)) = value {
        value.set_sensitive(true);
        request.metadata_mut().insert(TOKEN_HEADER, value);
    }
    request
}

/// Reads the stream, beats, and watches the coordinator, until the cluster is over or the handle is dropped.
pub(super) async fn attend(shared: &Shared, stream: Stream, answer: Answer) {
    let Stream { mut inbound, joining } = stream;
    let now = shared.clock.now();
    let mut member = Member {
        shared,
        joining,
        answer: Some(answer),
        watch: Watch::new(now),
        pace: Pace::new(now),
        started: now,
        missing: Vec::new(),
    };
    let mut turns = tokio::time::interval(Duration::from_micros(TURN_US));
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        // What has arrived is heard before anybody is blamed for silence.
        let end = tokio::select! {
            biased;
            message = inbound.message() => match message {
                Ok(Some(ToMember { kind: Some(kind) })) => member.receive(kind),
                Ok(Some(ToMember { kind: None })) => None,
                Ok(None) => Some(lost_coordinator(GONE)),
                Err(status) => {
                    tracing::debug!("the stream to the coordinator broke: {status}");
                    Some(lost_coordinator(GONE))
                }
            },
            _ = turns.tick() => member.turn(),
            () = shared.stop.notified() => return,
        };
        if let Some(end) = end {
            if let (Some(answer), End::Failed(failure)) = (member.answer.take(), &end) {
                let _ = answer.send(Err(JoinError::Failed(failure.clone())));
            }
            return shared.finish(end);
        }
    }
}

fn lost_coordinator(reason: impl Into<String>) -> End {
    End::Failed(Failure::lost(NodeId(0), reason))
}

struct Member<'a> {
    shared: &'a Shared,
    joining: Joining,
    /// Who waits for the seat, until the cluster is complete.
    answer: Option<Answer>,
    watch: Watch,
    pace: Pace,
    started: Tick,
    missing: Vec<u32>,
}

impl Member<'_> {
    fn receive(&mut self, message: to_member::Kind) -> Option<End> {
        self.watch.heard(self.shared.clock.now());
        match message {
            to_member::Kind::Beat(_) => None,
            to_member::Kind::Refused(refused) => {
                Some(self.turn_away(JoinError::from_refusal(refused, &self.joining)))
            }
            to_member::Kind::Waiting(waiting) => {
                let patient = self.shared.clock.now() < self.started.after(PATIENCE_US);
                if !patient && waiting.missing != self.missing {
                    self.missing = waiting.missing;
                    let nodes = self.shared.nodes;
                    tracing::info!("waiting for nodes {:?} of {nodes} to join", self.missing);
                }
                None
            }
            to_member::Kind::Complete(complete) => {
                let nodes: Result<Vec<SocketAddr>, _> =
                    complete.data_addresses.iter().map(|address| address.parse()).collect();
                match nodes {
                    Ok(nodes) if nodes.len() == self.shared.nodes => {
                        let roster = Roster { cluster: complete.cluster, nodes };
                        if let Some(answer) = self.answer.take() {
                            let _ = answer.send(Ok(roster));
                        }
                        None
                    }
                    Ok(_) | Err(_) => Some(lost_coordinator("sent a roster that cannot be read")),
                }
            }
            to_member::Kind::Gathered(gathered) => self.gathered(&gathered.name, gathered.pieces),
            to_member::Kind::Failed(failed) if failed.kind() == failed::Kind::Incomplete => {
                let missing = failed.missing.iter().map(|&rank| NodeId(rank as u16)).collect();
                let seconds = self.shared.clock.now().0.saturating_sub(self.started.0) / 1_000_000;
                Some(self.turn_away(JoinError::Incomplete { missing, nodes: self.shared.nodes, seconds }))
            }
            to_member::Kind::Failed(failed) => Some(End::Failed(Failure::from_wire(&failed))),
            to_member::Kind::Closed(_) => Some(End::Closed),
        }
    }

    /// This node does not get in.
    fn turn_away(&mut self, error: JoinError) -> End {
        if let Some(answer) = self.answer.take() {
            let _ = answer.send(Err(error));
        }
        End::Closed
    }

    fn gathered(&self, name: &str, pieces: Vec<super::proto::gathered::Piece>) -> Option<End> {
        let mut state = self.shared.lock();
        let Some(Slot::Open(assembly)) = state.gathers.get_mut(name) else {
            return Some(lost_coordinator(format!(
                "sent contributions to '{name}', for which nobody waits here"
            )));
        };
        match assembly.take(pieces) {
            Ok(false) => None,
            Ok(true) => {
                if let Some(Slot::Open(assembly)) = state.gathers.remove(name) {
                    state.gathers.insert(name.to_owned(), Slot::Done(assembly.into_payloads()));
                }
                drop(state);
                self.shared.changed.notify_all();
                None
            }
            Err(reason) => Some(lost_coordinator(reason)),
        }
    }

    fn turn(&mut self) -> Option<End> {
        let now = self.shared.clock.now();
        let turn = self.pace.turn(now);
        if turn.away {
            self.watch.excuse(now);
        }
        if let Some(reason) = self.watch.overdue(now) {
            return Some(lost_coordinator(reason));
        }
        let state = self.shared.lock();
        if turn.beat {
            state.send(from_member::Kind::Beat(Beat {}));
        }
        match &state.suspicion {
            // A coordinator that has fallen silent is itself the likelier culprit: its silence is judged first.
            Some((due, failure)) if now >= *due && self.watch.silence_us(now) < 2 * BEAT_US => {
                Some(End::Failed(failure.clone()))
            }
            Some(_) | None => None,
        }
    }
}
