//! The coordinator's shell: it connects the coordinator to streams and a clock, and checks the token. The
//! decisions are those of [`Coordinator`].

use crate::clock::MonotonicClock;
use crate::coordinator::{Action, Coordinator, Expected, Hangup};
use crate::credentials::{NO_TOKEN_HERE, NODES_HEADER, RANK_HEADER, given_token};
use crate::door::{self, Pass};
use crate::gathers::MESSAGE_BYTES_MAX;
use crate::proto::coordinator_server::{Coordinator as Service, CoordinatorServer};
use crate::proto::{FromMember, HealthReply, HealthRequest, ToMember, from_member, to_member};
use crate::signs::Signs;
use crate::watch::TURN_US;
use intendant_core::NodeId;
use intendant_core::lock;
use intendant_transport::{Throttle, Tls, Token};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::service::interceptor::InterceptedService;
use tonic::{Code, Request, Response, Status, Streaming};

/// How long a stream may be open before its first message.
const JOIN_MESSAGE: Duration = Duration::from_secs(3);

/// How long the process of node 0 stays alive for other nodes that do not know of the end yet.
const DRAIN: Duration = Duration::from_secs(1);

/// The most streams per connection. A node needs one, and a tool needs one.
const STREAMS_MAX: u32 = 8;

/// The most bytes of a request's headers. The longest headers that a node sends, with a token, take a few
/// hundred.
const HEADERS_BYTES_MAX: u32 = 8 << 10;

/// How often the server asks whether the other end of a connection is still there. Only tools need this:
/// nodes beat.
const PING: Duration = Duration::from_secs(30);

/// How long the other end may take to answer.
const PONG: Duration = Duration::from_secs(20);

/// The most connections that have not shown the token yet, in addition to one per node.
const STRANGERS_MAX: usize = 128;

/// A coordinator and the streams of its nodes.
pub(super) struct Hub {
    inner: Mutex<Inner>,
    token: Option<Token>,
    /// Limits the lines in the log, because every connection from outside can cause one.
    refusals: Mutex<Throttle>,
    clock: MonotonicClock,
    changed: Notify,
}

struct Inner {
    coordinator: Coordinator,
    lines: Vec<Option<Line>>,
    actions: Vec<Action>,
}

type Line = mpsc::UnboundedSender<Result<ToMember, Status>>;

impl Hub {
    /// Serves on `listener`, on the caller's runtime.
    pub(super) fn start(
        listener: tokio::net::TcpListener,
        clock: MonotonicClock,
        expected: Expected,
        cluster: u64,
        token: Option<Token>,
        tls: Option<Tls>,
        signs: Arc<Signs>,
    ) -> Arc<Self> {
        let nodes = expected.nodes;
        let lines = vec![None; nodes];
        let incoming = door::open(listener, tls, STRANGERS_MAX + expected.nodes);
        let coordinator = Coordinator::new(clock.now(), expected, cluster);
        let inner = Mutex::new(Inner { coordinator, lines, actions: Vec::new() });
        let refusals = Mutex::default();
        let hub = Arc::new(Self { inner, token, refusals, clock, changed: Notify::new() });
        let service = CoordinatorServer::new(Seats(hub.clone())).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let guard = hub.clone();
        let guarded = InterceptedService::new(service, move |request: Request<()>| {
            guard.authenticate(request.metadata())?;
            if let Some(pass) = request.extensions().get::<Pass>() {
                pass.stamp();
            }
            Ok(request)
        });
        tokio::spawn(async move {
            let server = tonic::transport::Server::builder()
                .max_concurrent_streams(STREAMS_MAX)
                .http2_max_header_list_size(HEADERS_BYTES_MAX)
                .http2_keepalive_interval(Some(PING))
                .http2_keepalive_timeout(Some(PONG));
            if let Err(error) = server.serve_with_incoming(guarded, incoming).await {
                tracing::error!("the coordinator's server ended: {error}");
            }
        });
        tokio::spawn({
            let hub = hub.clone();
            async move {
                let mut turns = tokio::time::interval(Duration::from_micros(TURN_US));
                turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                let mut arrived = signs.start(nodes);
                loop {
                    turns.tick().await;
                    hub.with(|now, coordinator, out| {
                        arrived.each(|node| coordinator.heard(now, node));
                        coordinator.turn(now, out);
                    });
                }
            }
        });
        hub
    }

    /// Waits until all nodes know how the cluster ended, for [`DRAIN`] at most.
    pub(super) async fn drain(&self) {
        let finished = async {
            while !self.lock().coordinator.finished() {
                self.changed.notified().await;
            }
        };
        if tokio::time::timeout(DRAIN, finished).await.is_err() {
            tracing::debug!("some nodes did not take note of the end of the cluster");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Lets the coordinator act, and carries out its actions.
    fn with<R>(&self, act: impl FnOnce(intendant_core::Tick, &mut Coordinator, &mut Vec<Action>) -> R) -> R {
        let mut inner = self.lock();
        let Inner { coordinator, lines, actions } = &mut *inner;
        let result = act(self.clock.now(), coordinator, actions);
        for action in actions.drain(..) {
            match action {
                Action::Send { to, message } => {
                    if let Some(line) = &lines[to.index()] {
                        // If the stream has ended, the task that reads it notices.
                        let _ = line.send(Ok(ToMember { kind: Some(message) }));
                    }
                }
                Action::HangUp { to } => lines[to.index()] = None,
                Action::Note(sentence) => tracing::info!("coordinator: {sentence}"),
                Action::Warning(sentence) => tracing::warn!("coordinator: {sentence}"),
            }
        }
        drop(inner);
        self.changed.notify_one();
        result
    }

    /// Serves one stream to its end.
    async fn attend(&self, mut inbound: Streaming<FromMember>, line: Line) {
        let first = tokio::time::timeout(JOIN_MESSAGE, inbound.message()).await;
        let Ok(Ok(Some(FromMember { kind: Some(from_member::Kind::Join(join)) }))) = first else {
            // Errors of a stream without a seat concern its other end only.
            let _ = line.send(Err(Status::failed_precondition("the first message must be Join")));
            return;
        };
        let (joined, rank) = {
            let rank = join.rank;
            let mut inner = self.lock();
            let now = self.clock.now();
            let Inner { coordinator, lines, actions } = &mut *inner;
            let joined = coordinator.join(now, join, actions);
            (joined.inspect(|rank| lines[rank.index()] = Some(line.clone())), rank)
        };
        let rank = match joined {
            Ok(rank) => rank,
            Err(refused) => {
                // If this ended the cluster, sends the reason to the others.
                self.with(|_, _, _| ());
                let why = self.lock().coordinator.difference(rank, &refused);
                self.warn(format_args!("node {rank} {why}"));
                let _ = line.send(Ok(ToMember { kind: Some(to_member::Kind::Refused(*refused)) }));
                drop(line);
                // The other end closes the stream once it has read the refusal. If this end reset the stream
                // earlier, the refusal could be lost.
                let _ = tokio::time::timeout(JOIN_MESSAGE, inbound.message()).await;
                return;
            }
        };
        // From here on, the seat has the only sender of the stream, so that hanging up ends the stream.
        drop(line);
        self.with(|_, _, _| ());
        let how = self.listen(rank, &mut inbound).await;
        self.with(|now, coordinator, out| coordinator.hung_up(now, rank, how, out));
        self.lock().lines[rank.index()] = None;
    }

    /// Compares the token, before any message is read.
    fn authenticate(&self, metadata: &MetadataMap) -> Result<(), Status> {
        let Some(token) = &self.token else { return Ok(()) };
        let problem = match given_token(metadata) {
            Some(given) if given.matches(token) => return Ok(()),
            Some(_) => "another token",
            None => "no token",
        };
        Err(self.shut_out(metadata, problem))
    }

    /// Notes that a process has another token than the cluster. Returns the status for the process.
    fn shut_out(&self, metadata: &MetadataMap, problem: &'static str) -> Status {
        let number = |name| metadata.get(name)?.to_str().ok()?.parse::<u32>().ok();
        match (number(RANK_HEADER), number(NODES_HEADER)) {
            (Some(rank), Some(nodes)) => {
                self.with(|now, coordinator, _| coordinator.shut_out(now, rank, nodes));
                self.warn(format_args!("refused a process that calls itself node {rank}: {problem}"));
            }
            _ => self.warn(format_args!("refused a connection: {problem}")),
        }
        Status::unauthenticated(problem)
    }

    /// Logs a warning, unless there were many such warnings.
    fn warn(&self, sentence: std::fmt::Arguments<'_>) {
        match lock(&self.refusals).pass(self.clock.now()) {
            Some(suppressed) => tracing::warn!("coordinator: {sentence}{suppressed}"),
            None => tracing::debug!("coordinator: {sentence}"),
        }
    }

    async fn listen(&self, rank: NodeId, inbound: &mut Streaming<FromMember>) -> Hangup {
        loop {
            match inbound.message().await {
                Ok(Some(message)) => {
                    self.with(|now, coordinator, out| coordinator.receive(now, rank, message, out));
                }
                Ok(None) => return Hangup::Gone,
                Err(status) => {
                    tracing::debug!("coordinator: the stream of node {rank} broke: {status}");
                    // These codes mean a message that is too long or cannot be decoded. All other codes mean
                    // a lost connection.
                    let garbage = matches!(status.code(), Code::OutOfRange | Code::Internal);
                    return if garbage { Hangup::Garbage } else { Hangup::Gone };
                }
            }
        }
    }
}

struct Seats(Arc<Hub>);

#[tonic::async_trait]
impl Service for Seats {
    type MemberStream = UnboundedReceiverStream<Result<ToMember, Status>>;

    async fn member(
        &self,
        request: Request<Streaming<FromMember>>,
    ) -> Result<Response<Self::MemberStream>, Status> {
        if self.0.token.is_none() && given_token(request.metadata()).is_some() {
            // The data plane of that process would refuse the connections of this one.
            return Err(self.0.shut_out(request.metadata(), NO_TOKEN_HERE));
        }
        let (line, outbound) = mpsc::unbounded_channel();
        let hub = self.0.clone();
        tokio::spawn(async move { hub.attend(request.into_inner(), line).await });
        Ok(Response::new(UnboundedReceiverStream::new(outbound)))
    }

    async fn health(&self, _: Request<HealthRequest>) -> Result<Response<HealthReply>, Status> {
        Ok(Response::new(self.0.with(|now, coordinator, _| coordinator.health(now))))
    }
}
