//! A node's side of the control plane: the state that blocking calls share with the one task that reads the
//! stream.

use crate::credentials::{NO_TOKEN_HERE, NODES_HEADER, RANK_HEADER, authorised, root_cause};
use crate::failure::{Failure, FailureKind, JoinError, Joining, list, shorten};
use crate::gathers::{Assembly, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, cut};
use crate::proto::coordinator_client::CoordinatorClient;
use crate::proto::{
    Abort, Beat, Complete, FromMember, GaveUp, Join, Leave, Lost, Setting, ToMember, failed, from_member,
    to_member,
};
use intendant_core::lock;

use crate::clock::MonotonicClock;
use crate::introduction::{Introduction, Roster};
use crate::signs::{Arrived, Signs};
use crate::watch::{BEAT_US, BeatTimer, TURN_US, Watch};
use crate::wire::{self, DialError, Dialled};
use intendant_core::{NodeId, Tick};
use intendant_launch::Rendezvous;
use intendant_transport::{Address, TlsError};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Streaming};

/// How long the coordinator has to decide about a lost connection.
const VERDICT_US: u64 = 2_000_000;

/// How long the coordinator has to pass on a deliberate end.
const ABORT: Duration = Duration::from_millis(1500);

/// Pause between two attempts to reach the coordinator.
const RETRY: Duration = Duration::from_millis(100);

/// The reason of a failure if the coordinator's process died.
const GONE: &str = "closed its connection without leaving";

/// A wait for other nodes that is so long is mentioned in the log. The next line follows after twice as long,
/// and so on.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long the stream stays open after the node gave up, so that the coordinator learns of it.
const FAREWELL: Duration = Duration::from_secs(2);

type Callback = Box<dyn FnOnce(&Failure) + Send>;
type Answer = std::sync::mpsc::Sender<Result<Roster, JoinError>>;

/// State that the handle and the control thread share.
pub(super) struct Shared {
    pub(super) rank: NodeId,
    nodes: usize,
    clock: MonotonicClock,
    state: Mutex<State>,
    changed: Condvar,
    pub(super) signs: Arc<Signs>,
    pub(super) stop: Notify,
}

#[derive(Default)]
struct State {
    /// The sender to the coordinator; `None` once the cluster is over for this node.
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
            // If the task has ended, it has left the reason in `end`.
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
        Self { rank, nodes, clock, state, changed, signs: Arc::default(), stop: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
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

    pub(super) fn drop_out(&self, reason: &str) {
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

    /// The cluster is over for this node. If there are several reasons, the first one stays.
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

/// Reaches the coordinator, which may not be up yet, and sends `introduction`. Node 0 knows its `own`
/// coordinator's address.
///
/// The node does not give an open connection up for a new one. Node 0 may still be reading its data while the
/// launcher's socket already accepts for it, and a `Join` in an abandoned connection would take this node's
/// seat later. The node replaces a connection that breaks, unless the port refuses connections now: then node
/// 0 was there and has died.
pub(super) async fn connect(
    shared: &Shared,
    rendezvous: &Rendezvous,
    introduction: &Introduction,
    own: Option<SocketAddr>,
) -> Result<Stream, JoinError> {
    let coordinator = rendezvous.coordinator().to_string();
    let seconds = rendezvous.join_deadline().as_secs();
    let deadline = tokio::time::Instant::now() + rendezvous.join_deadline();
    let mut waiting = Waiting::start();
    let mut was_there = false;
    loop {
        let detail = match dial(rendezvous, own).await {
            Ok(dialled) => {
                was_there = true;
                let asked = ask(shared, rendezvous, introduction, dialled, &coordinator);
                let mut asked = Box::pin(tokio::time::timeout_at(deadline, asked));
                let answer = loop {
                    tokio::select! {
                        biased;
                        answer = &mut asked => break answer,
                        () = waiting.wait() => {
                            tracing::warn!("waiting for node 0, which accepts connections at {coordinator} \
                                 but says nothing yet");
                        }
                    }
                };
                drop(asked);
                match answer {
                    Ok(SeatReply::Stream(inbound)) => {
                        let joining = Joining {
                            version: introduction.version.clone(),
                            data: introduction.data,
                            coordinator,
                        };
                        return Ok(Stream { inbound, joining });
                    }
                    Ok(SeatReply::TurnedAway(error)) => return Err(error),
                    Ok(SeatReply::Broken(detail)) => format!("the connection broke: {detail}"),
                    Err(_) => {
                        let detail = "something accepts connections there, but says nothing".to_owned();
                        return Err(JoinError::Unreachable { coordinator, seconds, detail });
                    }
                }
            }
            Err(Undialled { tls: Some(error), .. }) => return Err(JoinError::Tls { coordinator, error }),
            Err(Undialled { refused: true, .. }) if was_there => {
                return Err(JoinError::Failed(Failure::lost(NodeId(0), GONE)));
            }
            Err(Undialled { detail, .. }) => detail,
        };
        if tokio::time::Instant::now() + RETRY >= deadline {
            return Err(JoinError::Unreachable { coordinator, seconds, detail });
        }
        if waiting.is_over() {
            tracing::warn!("waiting for node 0 at {coordinator} ({detail})");
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// A wait that is mentioned in the log at ever longer intervals.
struct Waiting {
    mention: tokio::time::Instant,
    patience: Duration,
}

impl Waiting {
    fn start() -> Self {
        Self { mention: tokio::time::Instant::now() + PATIENCE, patience: PATIENCE }
    }

    /// Waits until a line in the log is due.
    async fn wait(&mut self) {
        tokio::time::sleep_until(self.mention).await;
        self.put_off();
    }

    /// Whether a line in the log is due.
    fn is_over(&mut self) -> bool {
        let over = tokio::time::Instant::now() >= self.mention;
        if over {
            self.put_off();
        }
        over
    }

    fn put_off(&mut self) {
        self.patience *= 2;
        self.mention = tokio::time::Instant::now() + self.patience;
    }
}

/// No attempt to connect succeeded.
struct Undialled {
    /// The error of the last attempt.
    detail: String,
    /// Whether there is an address, and the machine of every address refuses the connection.
    refused: bool,
    /// The error of TLS because of which another attempt would fail as well.
    tls: Option<TlsError>,
}

/// One attempt at every address of the coordinator.
async fn dial(rendezvous: &Rendezvous, own: Option<SocketAddr>) -> Result<Dialled, Undialled> {
    let coordinator = rendezvous.coordinator();
    let addresses: Vec<SocketAddr> = match own {
        Some(own) => vec![own],
        None => match tokio::net::lookup_host((coordinator.host.as_str(), coordinator.port)).await {
            Ok(addresses) => addresses.collect(),
            Err(error) => {
                let detail = format!("its name cannot be resolved: {error}");
                return Err(Undialled { detail, refused: false, tls: None });
            }
        },
    };
    let mut undialled =
        Undialled { detail: "its name has no address".into(), refused: !addresses.is_empty(), tls: None };
    for address in addresses {
        match wire::dial(address, rendezvous.cluster_tls()).await {
            Ok(dialled) => return Ok(dialled),
            Err(DialError::Io(error)) => {
                undialled.refused &= error.kind() == std::io::ErrorKind::ConnectionRefused;
                undialled.detail = root_cause(&error);
            }
            Err(DialError::Tls(error)) => {
                undialled.refused = false;
                undialled.tls = Some(error);
            }
        }
    }
    Err(undialled)
}

/// The answer to a request for a seat.
enum SeatReply {
    /// A stream, on which the coordinator sends whether this node is admitted.
    Stream(Streaming<ToMember>),
    /// The answer is that this node is not admitted.
    TurnedAway(JoinError),
    /// The connection ended before there was an answer.
    Broken(String),
}

/// Asks for this node's seat on an open connection.
async fn ask(
    shared: &Shared,
    rendezvous: &Rendezvous,
    introduction: &Introduction,
    dialled: Dialled,
    coordinator: &str,
) -> SeatReply {
    let mut client =
        CoordinatorClient::new(dialled.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let (line, outbound) = mpsc::unbounded_channel();
    shared.lock().line = Some(line);
    shared.lock().send(from_member::Kind::Join(Join {
        protocol: introduction.protocol,
        version: introduction.version.clone(),
        rank: rendezvous.rank().0.into(),
        nodes: rendezvous.nodes() as u32,
        layout: introduction.layout,
        element: introduction.data.map_or(0, |data| data.element as u32),
        channels: introduction.data.map_or(0, |data| data.channels.into()),
        data_address: introduction.data.map(|data| data.address.tcp.to_string()).unwrap_or_default(),
        data_socket: introduction
            .data
            .and_then(|data| Some(data.address.unix?.to_string()))
            .unwrap_or_default(),
        settings: introduction
            .settings
            .iter()
            .map(|(name, value)| Setting { name: name.clone(), value: value.clone() })
            .collect(),
    }));
    let mut request = authorised(UnboundedReceiverStream::new(outbound), rendezvous.cluster_token());
    request.metadata_mut().insert(RANK_HEADER, u32::from(rendezvous.rank().0).into());
    request.metadata_mut().insert(NODES_HEADER, (rendezvous.nodes() as u32).into());
    let status = match client.member(request).await {
        Ok(response) => return SeatReply::Stream(response.into_inner()),
        Err(status) => status,
    };
    // An answer of any kind arrives as a status without a source; a violation of HTTP/2 has a code of its
    // own.
    let broken = std::error::Error::source(&status).is_some()
        && matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled);
    let coordinator = coordinator.to_owned();
    if dialled.needs_tls() {
        SeatReply::TurnedAway(JoinError::Tls { coordinator, error: TlsError::TlsPeer })
    } else if broken {
        SeatReply::Broken(root_cause(&status))
    } else if status.code() == Code::Unauthenticated {
        let ours = match rendezvous.cluster_token() {
            None => "none is set",
            Some(_) if status.message() == NO_TOKEN_HERE => "the cluster has none",
            Some(_) => "another token than the cluster's",
        };
        SeatReply::TurnedAway(JoinError::Token { coordinator, ours })
    } else {
        SeatReply::TurnedAway(JoinError::NotACoordinator { coordinator, detail: root_cause(&status) })
    }
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
        beats: BeatTimer::new(now),
        arrived: shared.signs.start(1),
        started: now,
        waiting: Waiting::start(),
        gave_up: false,
    };
    let mut turns = tokio::time::interval(Duration::from_micros(TURN_US));
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        // The node handles messages that have arrived before it judges a silence.
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
            shared.finish(end);
            if member.gave_up {
                // The coordinator hangs up once it knows that this node has given up.
                let farewell = async { while let Ok(Some(_)) = inbound.message().await {} };
                let _ = tokio::time::timeout(FAREWELL, farewell).await;
            }
            return;
        }
    }
}

fn lost_coordinator(reason: impl Into<String>) -> End {
    End::Failed(Failure::lost(NodeId(0), reason))
}

struct Member<'a> {
    shared: &'a Shared,
    joining: Joining,
    /// Answers the thread that joins; `None` once the cluster is complete.
    answer: Option<Answer>,
    watch: Watch,
    beats: BeatTimer,
    /// Counters of the data from node 0.
    arrived: Arrived,
    started: Tick,
    waiting: Waiting,
    /// Whether this node has given up, because the coordinator has sent nothing for too long.
    gave_up: bool,
}

/// The addresses at which the nodes are reached, if all of them can be parsed.
fn addresses(complete: &Complete) -> Option<Vec<Address>> {
    // A coordinator of an older version sends no names.
    let names = complete.data_sockets.iter().map(String::as_str).chain(std::iter::repeat(""));
    let nodes = complete.data_addresses.iter().zip(names);
    nodes
        .map(|(address, name)| {
            let unix = if name.is_empty() { None } else { Some(name.parse().ok()?) };
            Some(Address { tcp: address.parse().ok()?, unix })
        })
        .collect()
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
                if self.waiting.is_over() {
                    let missing: Vec<NodeId> =
                        waiting.missing.iter().map(|&rank| NodeId(rank as u16)).collect();
                    tracing::warn!("waiting for {} of {} nodes to join", list(&missing), self.shared.nodes);
                }
                None
            }
            to_member::Kind::Complete(complete) => match addresses(&complete) {
                Some(nodes) if nodes.len() == self.joining.data.map_or(0, |_| self.shared.nodes) => {
                    let roster = Roster { cluster: complete.cluster, nodes };
                    if let Some(answer) = self.answer.take() {
                        let _ = answer.send(Ok(roster));
                    }
                    None
                }
                Some(_) | None => Some(lost_coordinator("sent a roster that cannot be read")),
            },
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

    /// This node cannot join.
    fn turn_away(&mut self, error: JoinError) -> End {
        if let Some(answer) = self.answer.take() {
            let _ = answer.send(Err(error));
        }
        End::Closed
    }

    fn gathered(&self, name: &str, pieces: Vec<crate::proto::gathered::Piece>) -> Option<End> {
        let mut state = self.shared.lock();
        let Some(Slot::Open(assembly)) = state.gathers.get_mut(name) else {
            return Some(lost_coordinator(format!(
                "sent contributions to '{name}', for which no call waits here"
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
        let turn = self.beats.turn(now);
        if turn.away {
            self.watch.excuse(now);
        }
        let mut heard = false;
        self.arrived.each(|_| heard = true);
        if heard {
            self.watch.heard(now);
        }
        let state = self.shared.lock();
        if let Some(reason) = self.watch.overdue(now) {
            state.send(from_member::Kind::GaveUp(GaveUp { silent_ms: self.watch.silence_us(now) / 1000 }));
            self.gave_up = true;
            return Some(lost_coordinator(reason));
        }
        if turn.beat {
            state.send(from_member::Kind::Beat(Beat {}));
        }
        match &state.suspicion {
            // A coordinator that has fallen silent is itself the likelier culprit: its silence is judged
            // first.
            Some((due, failure)) if now >= *due && self.watch.silence_us(now) < 2 * BEAT_US => {
                Some(End::Failed(failure.clone()))
            }
            Some(_) | None => None,
        }
    }
}
