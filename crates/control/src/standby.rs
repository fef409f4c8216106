//! The shell of `intendant-views`: the sockets by which a process answers others in all views, and by which
//! it [finds](intendant_views::find) the next view. It decides nothing.
//!
//! A process opens its [`Standby`] before the first view and keeps it until the process ends. Other processes
//! reach it at one address, whatever becomes of the clusters in which it is a node.

use crate::clock::MonotonicClock;
use crate::credentials::{NO_TOKEN_HERE, authorised, given_token, root_cause};
use crate::door::{self, Pass};
use crate::proto::Word;
use crate::proto::standby_client::StandbyClient;
use crate::proto::standby_server::{Standby as Service, StandbyServer};
use crate::wire::{DialError, Dialled, dial};
use bytes::Bytes;
use intendant_core::{Tick, lock};
use intendant_transport::{Tls, TlsError, Token};
use intendant_views::{
    Answer, Asked, Found, HeldCut, Muster, Next, NoAnswer, Notice, Offer, Process, SearchError, View, World,
};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_stream::{Stream, StreamExt};
use tonic::metadata::MetadataMap;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

/// Pause between two questions to a run.
const PAUSE: Duration = Duration::from_millis(50);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(1);

/// How long a piece of values may take.
const PIECE: Duration = Duration::from_secs(5);

/// How often [`scale`] asks a run that is between two views.
const SCALE_TRIES: u32 = 100;

/// The most bytes of a message.
const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// The most connections that have not shown the token yet.
const STRANGERS_MAX: usize = 128;

/// Pieces of values.
pub type Pieces = Box<dyn Iterator<Item = Bytes> + Send>;

/// Holds values for others.
pub trait Holder: Send + Sync {
    /// The values that another process wants, in pieces of at most a few MiB. The holder defines the format
    /// of `wanted` and of the pieces.
    ///
    /// # Errors
    /// A sentence that says why it has no such values.
    fn hold(&self, wanted: &[u8]) -> Result<Pieces, String>;
}

/// The sockets that a process keeps open for others in all views. See the module's description.
pub struct Standby {
    shared: Arc<Shared>,
    process: Process,
    host: IpAddr,
    runtime: Option<Runtime>,
}

struct Shared {
    muster: Mutex<Muster>,
    holder: Mutex<Option<Arc<dyn Holder>>>,
    clock: MonotonicClock,
    caller: Caller,
}

/// The state that a process needs to ask others.
struct Caller {
    protocol: u32,
    token: Option<Token>,
    tls: Option<Tls>,
    connections: Mutex<BTreeMap<SocketAddr, Arc<Dialled>>>,
}

/// A place in the next view.
#[derive(Debug)]
pub struct Mustered {
    /// The view, and where it begins.
    pub next: Next,
    /// The address at which its node 0 serves the coordinator.
    pub coordinator: SocketAddr,
    /// The socket for the coordinator, at node 0.
    pub listener: Option<TcpListener>,
}

/// The reason for which another process sends no values.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {detail}")]
pub struct FetchError {
    /// The process.
    pub address: SocketAddr,
    /// What happened.
    pub detail: String,
}

impl Standby {
    /// Opens the standby on `host`, at a port that the operating system chooses. `settings` is
    /// [`Offer::settings`]. Processes with another `protocol` or token are refused.
    ///
    /// # Errors
    /// If the operating system refuses. Also if there is no token and other machines can reach `host`.
    pub fn open(
        host: IpAddr,
        (protocol, settings): (u32, u64),
        token: Option<Token>,
        tls: Option<Tls>,
    ) -> io::Result<Self> {
        if token.is_none() && !host.is_loopback() {
            return Err(io::Error::other(format!(
                "{host} is reached from other machines, and there is no token"
            )));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("intendant-standby")
            .enable_all()
            .build()?;
        let listener = TcpListener::bind((host, 0))?;
        listener.set_nonblocking(true)?;
        let id = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        let process = Process { id, address: listener.local_addr()? };
        let me = Offer { settings, ..Offer::of(process, None) };
        let shared = Arc::new(Shared {
            muster: Mutex::new(Muster::new(me)),
            holder: Mutex::default(),
            clock: MonotonicClock::start(),
            caller: Caller { protocol, token, tls, connections: Mutex::default() },
        });
        runtime.block_on(async { serve(&shared, tokio::net::TcpListener::from_std(listener)?) })?;
        Ok(Self { shared, process, host, runtime: Some(runtime) })
    }

    /// This process.
    #[must_use]
    pub fn process(&self) -> Process {
        self.process
    }

    /// Sets the holder, which answers processes that fetch values.
    pub fn hold(&self, holder: Arc<dyn Holder>) {
        *lock(&self.shared.holder) = Some(holder);
    }

    /// Sets the cuts that this process holds from now on.
    pub fn holds(&self, cuts: Vec<HeldCut>) {
        lock(&self.shared.muster).hold(cuts);
    }

    /// All nodes of view `view` hold the parts of one of its cuts that they should hold.
    pub fn settle(&self, view: u64) {
        lock(&self.shared.muster).settle(view);
    }

    /// The process has entered a view together with all other members.
    pub fn entered(&self, view: &View) {
        lock(&self.shared.muster).entered(view);
    }

    /// The process begins to work in this view, which it has entered.
    pub fn began(&self, next: &Next) {
        lock(&self.shared.muster).began(next);
    }

    /// A view did not begin, perhaps because of these processes, which have joined with it. None may join
    /// from their machines for some time.
    pub fn failed(&self, blamed: &[Process]) {
        lock(&self.shared.muster).failed(self.shared.clock.now(), blamed);
    }

    /// Number of processes that want to join this node's view, and may.
    #[must_use]
    pub fn joining(&self) -> usize {
        lock(&self.shared.muster).joining(self.shared.clock.now())
    }

    /// The number of nodes that was asked for since the last call, if any.
    #[must_use]
    pub fn take_wanted(&self) -> Option<u16> {
        lock(&self.shared.muster).take_wanted()
    }

    /// Finds the next view, together with the others. `gone` are members of the last view that are lost. A
    /// process that wants to join asks at `door`. Blocks.
    ///
    /// # Errors
    /// See [`SearchError`].
    pub fn muster(
        &self,
        gone: &[u64],
        door: Option<SocketAddr>,
        within: Duration,
    ) -> Result<Mustered, SearchError> {
        lock(&self.shared.muster).lose(gone.iter().copied());
        let outside = Outside { shared: &self.shared, host: self.host, listener: Mutex::default() };
        let within_us = within.as_micros() as u64;
        let found = self.runtime().block_on(intendant_views::find(&outside, door, within_us))?;
        let Found { next, coordinator, is_here } = found;
        let listener = lock(&outside.listener).take().filter(|_| is_here);
        Ok(Mustered { next, coordinator, listener })
    }

    /// Leaves the run: the process holds its values until the others do not need them any more or are gone,
    /// or until the time is over. Blocks.
    pub fn leave(&self, within: Duration) {
        let outside = Outside { shared: &self.shared, host: self.host, listener: Mutex::default() };
        self.runtime().block_on(intendant_views::leave(&outside, within.as_micros() as u64));
    }

    /// Reads values that another process holds; `each` gets the pieces. Blocks.
    ///
    /// # Errors
    /// If the process cannot be reached, or has no such values.
    pub fn fetch(
        &self,
        from: SocketAddr,
        wanted: &[u8],
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), FetchError> {
        let mut is_first = true;
        loop {
            let mut began = false;
            let fetched = self.runtime().block_on(self.fetch_once(from, wanted, &mut |piece| {
                began = true;
                each(piece);
            }));
            // The connection may have broken since its last use, so a first failure is tried again.
            match fetched {
                Err(_) if std::mem::take(&mut is_first) && !began => {}
                fetched => return fetched.map_err(|detail| FetchError { address: from, detail }),
            }
        }
    }

    async fn fetch_once(
        &self,
        from: SocketAddr,
        wanted: &[u8],
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), String> {
        let caller = &self.shared.caller;
        let fetched = async {
            let (mut client, _) = caller.client(from).await.map_err(|error| match error {
                DialError::Io(error) => root_cause(&error),
                DialError::Tls(error) => error.to_string(),
            })?;
            let late = |_| "it does not answer".to_owned();
            let asked = tokio::time::timeout(PIECE, client.fetch(caller.word(wanted.to_vec())));
            let mut stream = asked.await.map_err(late)?.map_err(|status| said(&status))?.into_inner();
            loop {
                let piece = tokio::time::timeout(PIECE, stream.message()).await.map_err(late)?;
                match piece.map_err(|status| said(&status))? {
                    Some(piece) => each(&piece.content),
                    None => return Ok(()),
                }
            }
        };
        let fetched: Result<(), String> = fetched.await;
        if fetched.is_err() {
            lock(&caller.connections).remove(&from);
        }
        fetched
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken only when the standby is dropped")
    }
}

/// The sockets and the clock of a search.
struct Outside<'a> {
    shared: &'a Shared,
    host: IpAddr,
    /// The socket at which the next view would meet.
    listener: Mutex<Option<TcpListener>>,
}

impl World for Outside<'_> {
    fn now(&self) -> Tick {
        self.shared.clock.now()
    }

    fn muster<R>(&self, act: impl FnOnce(&mut Muster) -> R) -> R {
        act(&mut lock(&self.shared.muster))
    }

    async fn sleep(&self, us: u64) {
        tokio::time::sleep(Duration::from_micros(us)).await;
    }

    async fn offer(&self, at: SocketAddr, within_us: u64) -> Result<Answer, NoAnswer> {
        let Shared { muster, caller, .. } = self.shared;
        let asked = Asked::Offer(lock(muster).me().clone());
        let answer = tokio::time::timeout(Duration::from_micros(within_us), caller.ask(at, &asked)).await;
        answer.unwrap_or_else(|_| {
            lock(&caller.connections).remove(&at);
            Err(NoAnswer::Late)
        })
    }

    fn listen(&self) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((self.host, 0))?;
        let address = listener.local_addr()?;
        *lock(&self.listener) = Some(listener);
        Ok(address)
    }

    fn say(&self, notice: Notice) {
        match notice {
            Notice::WaitsOutside(detail) => tracing::warn!("waiting to be let into the run: {detail}"),
            Notice::WaitsAt(at) => tracing::info!("waiting to join the run at {at}"),
            Notice::StartsOver => {
                tracing::warn!("the run has gone on without this process, which asks to join it again");
            }
        }
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Standby {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standby").field("process", &self.process).finish_non_exhaustive()
    }
}

/// The reason for which a run could not be asked for another number of nodes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScaleError {
    /// The address cannot be resolved.
    #[error("{address}: {detail}; it is HOST:PORT")]
    Unresolved {
        /// The address that was given.
        address: String,
        /// What is wrong.
        detail: String,
    },
    /// The run does not answer, or refuses.
    #[error("{address}: {detail}")]
    Unheard {
        /// The process that was asked last.
        address: SocketAddr,
        /// What happened.
        detail: String,
    },
}

/// Asks the run that has a process at `address` ("host:port") to go on with `nodes` nodes. Returns the number
/// of nodes that the run has now. Blocks for a few seconds at most.
///
/// # Errors
/// If no such process answers, or it refuses the token or the certificate.
pub fn scale(
    address: &str,
    nodes: u16,
    protocol: u32,
    token: Option<&Token>,
    tls: Option<&Tls>,
) -> Result<u16, ScaleError> {
    let unresolved = |detail: String| ScaleError::Unresolved { address: address.to_owned(), detail };
    let addresses = address.to_socket_addrs().map_err(|error| unresolved(error.to_string()))?;
    let mut at = addresses.into_iter().next().ok_or_else(|| unresolved("it has no address".to_owned()))?;
    let unheard =
        |address: SocketAddr, detail: &str| ScaleError::Unheard { address, detail: detail.to_owned() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| unheard(at, &error.to_string()))?;
    let (token, tls) = (token.cloned(), tls.cloned());
    let caller = Caller { protocol, token, tls, connections: Mutex::default() };
    runtime.block_on(async {
        for _ in 0..SCALE_TRIES {
            match tokio::time::timeout(ANSWER, caller.ask(at, &Asked::Scale(nodes))).await {
                Ok(Ok(Answer::Scaling { nodes })) => return Ok(nodes),
                Ok(Ok(Answer::Elsewhere(address))) => at = address,
                Ok(Ok(Answer::Refused(detail))) => return Err(unheard(at, &detail)),
                Ok(Ok(Answer::Stuck(detail))) => return Err(unheard(at, &detail)),
                // These answers are about an offer, and do not answer this question.
                Ok(Ok(
                    Answer::Wait
                    | Answer::Promise(_)
                    | Answer::Accept(..)
                    | Answer::Chosen(_)
                    | Answer::Go(..)
                    | Answer::Released,
                )) => {}
                Ok(Err(failure)) => return Err(unheard(at, &failure.to_string())),
                Err(_) => return Err(unheard(at, &NoAnswer::Late.to_string())),
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(unheard(at, "the run is between two views; try again"))
    })
}

impl Caller {
    fn word(&self, content: Vec<u8>) -> Request<Word> {
        authorised(Word { protocol: self.protocol, content: content.into() }, self.token.as_ref())
    }

    /// A connection to a process.
    async fn client(&self, at: SocketAddr) -> Result<(StandbyClient<Channel>, Arc<Dialled>), DialError> {
        let known = lock(&self.connections).get(&at).cloned();
        let dialled = match known {
            Some(dialled) => dialled,
            None => {
                let dialled = Arc::new(dial(at, self.tls.as_ref()).await?);
                lock(&self.connections).insert(at, Arc::clone(&dialled));
                dialled
            }
        };
        let client = StandbyClient::new(dialled.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        Ok((client, dialled))
    }

    /// Asks a process once.
    async fn ask(&self, at: SocketAddr, asked: &Asked) -> Result<Answer, NoAnswer> {
        let content = postcard::to_stdvec(asked).expect("what is asked can be serialised");
        let (mut client, dialled) = match self.client(at).await {
            Ok(client) => client,
            Err(DialError::Io(error)) if innermost_kind(&error) == Some(io::ErrorKind::ConnectionRefused) => {
                return Err(NoAnswer::Gone);
            }
            Err(DialError::Io(error)) => return Err(NoAnswer::Failed(root_cause(&error))),
            Err(DialError::Tls(error)) => return Ok(Answer::Refused(error.to_string())),
        };
        match client.muster(self.word(content)).await {
            Ok(answer) => postcard::from_bytes(&answer.into_inner().content)
                .map_err(|error| NoAnswer::Failed(format!("its answer cannot be read: {error}"))),
            Err(status) => {
                lock(&self.connections).remove(&at);
                if dialled.needs_tls() {
                    Ok(Answer::Refused(TlsError::TlsPeer.to_string()))
                } else if matches!(status.code(), Code::Unauthenticated | Code::FailedPrecondition) {
                    Ok(Answer::Refused(status.message().to_owned()))
                } else if status.code() == Code::Unimplemented {
                    Ok(Answer::Refused("it is no process of a run with --copies".to_owned()))
                } else {
                    Err(NoAnswer::Failed(said(&status)))
                }
            }
        }
    }

    /// Compares the token, before any message is read.
    fn authenticate(&self, metadata: &MetadataMap) -> Result<(), Status> {
        match (&self.token, given_token(metadata)) {
            (None, None) => Ok(()),
            (Some(token), Some(given)) if given.matches(token) => Ok(()),
            (Some(_), Some(_)) => Err(Status::unauthenticated("another token than the run's")),
            (Some(_), None) => Err(Status::unauthenticated("the run has a token, and none is given")),
            (None, Some(_)) => Err(Status::unauthenticated(NO_TOKEN_HERE)),
        }
    }

    fn content(&self, request: Request<Word>) -> Result<Bytes, Status> {
        let Word { protocol, content } = request.into_inner();
        if protocol == self.protocol {
            return Ok(content);
        }
        let ours = self.protocol;
        Err(Status::failed_precondition(format!(
            "the run speaks protocol {ours}, and this process {protocol}: start all nodes from one build"
        )))
    }
}

/// The text of a status.
fn said(status: &Status) -> String {
    if matches!(status.code(), Code::NotFound | Code::Unauthenticated | Code::FailedPrecondition) {
        status.message().to_owned()
    } else {
        root_cause(status)
    }
}

/// The kind of the innermost I/O error.
fn innermost_kind(error: &io::Error) -> Option<io::ErrorKind> {
    let inner = crate::credentials::innermost(error);
    inner.downcast_ref::<io::Error>().map(io::Error::kind)
}

/// Serves on `listener`, on the caller's runtime, as long as the runtime lives.
fn serve(shared: &Arc<Shared>, listener: tokio::net::TcpListener) -> io::Result<()> {
    let incoming = door::open(listener, shared.caller.tls.clone(), STRANGERS_MAX);
    let service =
        StandbyServer::new(Answers(Arc::clone(shared))).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let guard = Arc::clone(shared);
    let guarded = InterceptedService::new(service, move |request: Request<()>| {
        guard.caller.authenticate(request.metadata())?;
        if let Some(pass) = request.extensions().get::<Pass>() {
            pass.stamp();
        }
        Ok(request)
    });
    tokio::spawn(async move {
        let server = tonic::transport::Server::builder();
        if let Err(error) = server.serve_with_incoming(guarded, incoming).await {
            tracing::error!("what answers other processes ended: {error}");
        }
    });
    Ok(())
}

struct Answers(Arc<Shared>);

#[tonic::async_trait]
impl Service for Answers {
    type FetchStream = Pin<Box<dyn Stream<Item = Result<Word, Status>> + Send>>;

    async fn muster(&self, request: Request<Word>) -> Result<Response<Word>, Status> {
        let shared = &self.0;
        let content = shared.caller.content(request)?;
        let asked: Asked = postcard::from_bytes(&content)
            .map_err(|error| Status::invalid_argument(format!("an offer that cannot be read: {error}")))?;
        let answer = lock(&shared.muster).answer(shared.clock.now(), asked);
        let content = postcard::to_stdvec(&answer).expect("an answer can be serialised").into();
        Ok(Response::new(Word { protocol: shared.caller.protocol, content }))
    }

    async fn fetch(&self, request: Request<Word>) -> Result<Response<Self::FetchStream>, Status> {
        let shared = &self.0;
        let wanted = shared.caller.content(request)?;
        let holder = lock(&shared.holder).clone();
        let holder = holder.ok_or_else(|| Status::not_found("this process holds nothing"))?;
        let pieces = holder.hold(&wanted).map_err(Status::not_found)?;
        let protocol = shared.caller.protocol;
        let words = tokio_stream::iter(pieces).map(move |content| Ok(Word { protocol, content }));
        Ok(Response::new(Box::pin(words)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// A process whose machine is stopped: its system accepts connections, and the process does not answer.
    fn frozen(id: u64) -> (TcpListener, Process) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        (listener, Process { id, address })
    }

    #[test]
    fn many_members_that_stand_still_are_waited_for_once() {
        let standby = Standby::open(Ipv4Addr::LOCALHOST.into(), (1, 2), None, None).expect("a standby");
        let (_listeners, mut members): (Vec<_>, Vec<_>) = (0..8).map(frozen).unzip();
        members.push(standby.process());
        standby.entered(&View::first(members));
        // The search takes 3 s for the first member and 3 s for all others together, then 5 s of patience and
        // 6 s of hope. If it asked the members one after the other, they would take 24 s instead of 6 s.
        let error = standby.muster(&[], None, Duration::from_secs(29)).expect_err("it is one of nine");
        assert!(matches!(error, SearchError::Stuck(_)), "{error}");
    }
}
