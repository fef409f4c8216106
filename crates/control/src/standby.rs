//! The shell of `intendant-views`: what a process answers in all views, and how it finds the
//! next one. It decides nothing.
//!
//! A process opens its [`Standby`] before the first view and keeps it to its end. Others reach it at one
//! address, whatever becomes of the clusters in which it is a node.

use crate::clock::MonotonicClock;
use crate::credentials::{NO_TOKEN_HERE, authorised, given_token, root_cause};
use crate::door::{self, Pass};
use crate::proto::Word;
use crate::proto::standby_client::StandbyClient;
use crate::proto::standby_server::{Standby as Service, StandbyServer};
use crate::wire::{DialError, Dialled, dial};
use bytes::Bytes;
use intendant_core::lock;
use intendant_transport::{Tls, TlsError, Token};
use intendant_views::{Answer, Asked, Decision, HeldCut, Muster, Next, Offer, Process, View};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_stream::{Stream, StreamExt};
use tonic::metadata::MetadataMap;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

/// Pause between two offers to a process that answered.
const PAUSE: Duration = Duration::from_millis(50);

/// Pause between two looks of the leader.
const LOOK: Duration = Duration::from_millis(20);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(1);

/// How long a piece of values may take.
const PIECE: Duration = Duration::from_secs(5);

/// How often in a row there may be no answer before another process is asked.
const SILENCES: u32 = 3;

/// How often in a row a process may be sent elsewhere.
const REDIRECTIONS: u32 = 40;

/// How often the leader asks whether a process lives that would lead.
const PROBE: Duration = Duration::from_millis(500);

/// How long the leader hopes for others if those that are there cannot go on.
const HOPE: Duration = Duration::from_secs(6);

/// How long a process tells others that the run cannot go on, before it ends. Those that muster ask every
/// [`PAUSE`]; one that does not ask in time finds out by itself, later.
const TELL: Duration = Duration::from_millis(500);

/// After so long a process says that it waits, if it wants to join.
const MENTION: Duration = Duration::from_secs(3);

/// How often a run is asked that is between two views.
const SCALE_TRIES: u32 = 100;

/// Bytes of a message at most.
const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Connections that have not shown the token yet, at most.
const STRANGERS_MAX: usize = 128;

/// Pieces of values.
pub type Pieces = Box<dyn Iterator<Item = Bytes> + Send>;

/// Holds values for others.
pub trait Holder: Send + Sync {
    /// What another process wants, in pieces of at most some MiB. The meaning of both is the holder's own.
    ///
    /// # Errors
    /// A sentence that says why there is nothing.
    fn hold(&self, wanted: &[u8]) -> Result<Pieces, String>;
}

/// What a process keeps open for others in all views. See the module's description.
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

/// What a process needs to ask others.
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
    /// Where its node 0 serves the coordinator.
    pub coordinator: SocketAddr,
    /// The socket for that, at node 0.
    pub listener: Option<TcpListener>,
}

/// Why there is no next view for a process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MusterError {
    /// The processes that are left cannot go on.
    #[error("the run cannot go on: {0}")]
    Stuck(String),
    /// The others do not want it.
    #[error("{address} refuses this process: {reason}")]
    Refused {
        /// Who says so.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// The run has ended before the process was let in, or has lost the node that it asked.
    #[error("no process is at {address} any more: the run has ended, or has lost that node")]
    Over {
        /// Where it was.
        address: SocketAddr,
    },
    /// There was no answer, or no decision.
    #[error("no run could be joined within {seconds} s: {detail}")]
    Late {
        /// How long it was tried.
        seconds: u64,
        /// The last obstacle.
        detail: String,
    },
    /// The operating system refused a socket.
    #[error("cannot open a socket: {0}")]
    Socket(#[from] io::Error),
}

/// Why there are no values from another process.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {detail}")]
pub struct FetchError {
    /// The process.
    pub address: SocketAddr,
    /// What happened.
    pub detail: String,
}

/// Why there is no answer.
enum NoAnswer {
    /// No process is there.
    Gone,
    /// This happened, and may pass.
    Silent(String),
}

impl NoAnswer {
    /// The same of a process that was named by another one.
    fn passing(self) -> Self {
        match self {
            Self::Gone => Self::Silent("the process that leads is gone".to_owned()),
            Self::Silent(_) => self,
        }
    }
}

impl Standby {
    /// Opens it on `host`, at a port that the operating system chooses. `settings` is [`Offer::settings`].
    /// Processes with another `protocol` or token are refused.
    ///
    /// # Errors
    /// If the operating system refuses; also without a token, if `host` is reached from other machines.
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

    /// Says who answers those that fetch values.
    pub fn hold(&self, holder: Arc<dyn Holder>) {
        *lock(&self.shared.holder) = Some(holder);
    }

    /// Says which cuts this process holds from now on.
    pub fn holds(&self, cuts: Vec<HeldCut>) {
        lock(&self.shared.muster).me().cuts = cuts;
    }

    /// All nodes of this node's view hold what they should of one of its cuts.
    pub fn settle(&self, view: u64) {
        lock(&self.shared.muster).settle(view);
    }

    /// The process calls the first gather of a view.
    pub fn entering(&self, view: &View) {
        lock(&self.shared.muster).entering(view);
    }

    /// It has passed that gather.
    pub fn entered(&self, view: &View) {
        lock(&self.shared.muster).entered(view);
    }

    /// The process begins to work in this view, which it has entered.
    pub fn began(&self, next: &Next) {
        lock(&self.shared.muster).began(next);
    }

    /// The process could not enter this view, or not begin to work in it. If others have joined with it, no
    /// process may join for some time.
    pub fn failed(&self, next: &Next) {
        lock(&self.shared.muster).failed(self.shared.clock.now(), next);
    }

    /// Processes that may join this node's view, and want to.
    #[must_use]
    pub fn joining(&self) -> usize {
        lock(&self.shared.muster).joining(self.shared.clock.now())
    }

    /// The number of nodes that was asked for since this was called last.
    #[must_use]
    pub fn take_wanted(&self) -> Option<u16> {
        lock(&self.shared.muster).take_wanted()
    }

    /// Finds the next view, together with the others. `gone` are members of the last view that are lost. A
    /// process that wants to join asks at `door`. Blocks.
    ///
    /// # Errors
    /// See [`MusterError`].
    pub fn muster(
        &self,
        gone: &[u64],
        door: Option<SocketAddr>,
        within: Duration,
    ) -> Result<Mustered, MusterError> {
        lock(&self.shared.muster).me().gone.extend(gone);
        let found = self.runtime().block_on(self.find(door, within));
        if let Ok(found) = &found {
            lock(&self.shared.muster).go(&found.next);
        }
        found
    }

    /// Leaves: goes on to hold values until the others do not need them any more, or are gone, or the time is
    /// over. Blocks.
    pub fn leave(&self, within: Duration) {
        lock(&self.shared.muster).me().leaves = true;
        let shared = &self.shared;
        let deadline = tokio::time::Instant::now() + within;
        self.runtime().block_on(async {
            loop {
                let others =
                    shared.candidates(None).into_iter().filter(|(id, _)| *id != Some(self.process.id));
                let Some((id, address)) = others.into_iter().next() else { return };
                match shared.ask_until(address, deadline, false, &mut false).await {
                    Ok(Answer::Released) => return,
                    // Another process has the address of a node that is lost.
                    Ok(Answer::Refused(_) | Answer::Stuck(_)) | Err(_) => {
                        lock(&shared.muster).me().gone.extend(id)
                    }
                    Ok(_) if tokio::time::Instant::now() < deadline => {}
                    Ok(_) => return,
                }
            }
        });
    }

    /// Reads what another process holds; `each` gets the pieces. Blocks.
    ///
    /// # Errors
    /// If the process is not reached, or has nothing.
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
            // A connection that was used before may have broken since.
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

    async fn find(&self, door: Option<SocketAddr>, within: Duration) -> Result<Mustered, MusterError> {
        let shared = &self.shared;
        let deadline = tokio::time::Instant::now() + within;
        let mut detail = "no process answers".to_owned();
        let mut stuck: Option<tokio::time::Instant> = None;
        // Why the run cannot go on, of a process that has led before.
        let mut verdict: Option<String> = None;
        let (mut door, mut was_there) = (door, false);
        let mut mention = Some(tokio::time::Instant::now() + MENTION);
        loop {
            let candidates = shared.candidates(door);
            let mut silent = None;
            for (place, (id, address)) in candidates.iter().copied().enumerate() {
                if silent.as_ref().is_some_and(|silent: &BTreeSet<SocketAddr>| silent.contains(&address)) {
                    continue;
                }
                if tokio::time::Instant::now() >= deadline {
                    return Err(MusterError::Late { seconds: within.as_secs(), detail });
                }
                if id == Some(self.process.id) {
                    match self.lead(deadline, &mut stuck, verdict.as_ref()).await? {
                        Some(Ok(found)) => return Ok(found),
                        Some(Err(at)) => {
                            (door, was_there) = (Some(at), true);
                            break;
                        }
                        None => break,
                    }
                }
                let joins = id.is_none();
                match shared.ask_until(address, deadline, joins, &mut was_there).await {
                    Ok(Answer::Go(next, coordinator)) => {
                        return Ok(Mustered { next, coordinator, listener: None });
                    }
                    Ok(Answer::Refused(reason)) if joins => {
                        return Err(MusterError::Refused { address, reason });
                    }
                    // A process of another run has the address of a node that is lost.
                    Ok(Answer::Refused(reason)) => detail = format!("{address}: {reason}"),
                    Ok(Answer::Outside(first)) => {
                        shared.start_over();
                        (door, was_there) = (Some(first), true);
                        break;
                    }
                    Ok(Answer::Stuck(reason)) if joins => return Err(MusterError::Stuck(reason)),
                    // Others may be there that it does not reach. If they are not, nothing is hoped for.
                    Ok(Answer::Stuck(reason)) => {
                        stuck.get_or_insert_with(tokio::time::Instant::now);
                        verdict.get_or_insert(reason);
                    }
                    Ok(Answer::Wait | Answer::Elsewhere(_) | Answer::Scaling { .. } | Answer::Released) => {}
                    Err(NoAnswer::Gone) if joins && was_there => return Err(MusterError::Over { address }),
                    Err(NoAnswer::Gone) => {
                        detail = format!("no process is at {address}");
                        if let Some(id) = id {
                            lock(&shared.muster).me().gone.push(id);
                        }
                    }
                    Err(NoAnswer::Silent(said)) => {
                        detail = format!("{address}: {said}");
                        if silent.is_none() {
                            let next = candidates[place + 1..].iter();
                            let next = next.take_while(|(id, _)| *id != Some(self.process.id));
                            silent = Some(shared.silent(next.map(|(_, address)| *address)).await);
                        }
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
            let now = tokio::time::Instant::now();
            if now >= deadline {
                return Err(MusterError::Late { seconds: within.as_secs(), detail });
            }
            let joins = lock(&shared.muster).me().entered.is_none();
            if joins && mention.take_if(|at| now >= *at).is_some() {
                tracing::warn!("waiting to be let into the run: {detail}");
            }
        }
    }

    /// Leads until there is a decision, or another process leads (`None`), or is in a later view of the run
    /// (its address).
    async fn lead(
        &self,
        deadline: tokio::time::Instant,
        stuck: &mut Option<tokio::time::Instant>,
        verdict: Option<&String>,
    ) -> Result<Option<Result<Mustered, SocketAddr>>, MusterError> {
        let shared = &self.shared;
        let listener = TcpListener::bind((self.host, 0))?;
        let coordinator = listener.local_addr()?;
        lock(&shared.muster).lead(shared.clock.now());
        let mut probe = tokio::time::Instant::now() + PROBE;
        loop {
            let decision = lock(&shared.muster).decide(shared.clock.now(), coordinator);
            let now = tokio::time::Instant::now();
            match decision {
                Decision::Go(next) => {
                    return Ok(Some(Ok(Mustered { next, coordinator, listener: Some(listener) })));
                }
                Decision::Wait(_) => {}
                Decision::Stuck(reason) => {
                    if now >= *stuck.get_or_insert(now + HOPE) || now >= deadline {
                        // Those who come after it know less: this process is lost for them.
                        let reason = verdict.cloned().unwrap_or(reason);
                        lock(&shared.muster).give_up(reason.clone());
                        tokio::time::sleep(TELL).await;
                        return Err(MusterError::Stuck(reason));
                    }
                }
            }
            if now >= probe {
                probe = now + PROBE;
                let others = lock(&shared.muster).others();
                let mut asked = JoinSet::new();
                for (process, is_before) in others {
                    let (shared, offer) = (Arc::clone(shared), Asked::Offer(shared.offer()));
                    asked.spawn(async move {
                        let asked = shared.caller.ask(process.address, &offer);
                        (process, is_before, tokio::time::timeout(PROBE, asked).await)
                    });
                }
                for (process, is_before, answer) in asked.join_all().await {
                    match answer {
                        // It leads, or does not know yet that the view has ended.
                        Ok(Ok(Answer::Wait)) if is_before => return Ok(None),
                        // The run is in another view. The caller asks this process, and hears of it.
                        Ok(Ok(Answer::Outside(_))) => {
                            shared.start_over();
                            return Ok(Some(Err(process.address)));
                        }
                        Ok(Err(NoAnswer::Gone)) => lock(&shared.muster).me().gone.push(process.id),
                        Ok(_) | Err(_) => {}
                    }
                }
            }
            tokio::time::sleep(LOOK).await;
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

/// Why a run cannot be asked for another number of nodes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScaleError {
    /// The address leads nowhere.
    #[error("{address}: {detail}; it is HOST:PORT")]
    Unresolved {
        /// What was given.
        address: String,
        /// What is wrong.
        detail: String,
    },
    /// The run does not answer, or refuses.
    #[error("{address}: {detail}")]
    Unheard {
        /// Who was asked last.
        address: SocketAddr,
        /// What happened.
        detail: String,
    },
}

/// Asks the run that has a process at `address` ("host:port") to go on with `nodes` nodes; how many it has.
/// Blocks for a few seconds at most.
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
                Ok(Ok(Answer::Refused(detail)) | Err(NoAnswer::Silent(detail))) => {
                    return Err(unheard(at, &detail));
                }
                Ok(Ok(Answer::Stuck(detail))) => return Err(unheard(at, &detail)),
                Ok(Ok(Answer::Wait | Answer::Go(..) | Answer::Released | Answer::Outside(_))) => {}
                Ok(Err(NoAnswer::Gone)) => return Err(unheard(at, "no process is there")),
                Err(_) => return Err(unheard(at, "it does not answer")),
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(unheard(at, "the run is between two views; try again"))
    })
}

impl Shared {
    /// The run is in a later view, of which this process is no member.
    fn start_over(&self) {
        tracing::warn!("the run has gone on without this process, which asks to join it again");
        lock(&self.muster).start_over();
    }

    fn offer(&self) -> Offer {
        lock(&self.muster).me().clone()
    }

    /// Whom to ask, in this order; with an id if it is a member of the last view.
    fn candidates(&self, door: Option<SocketAddr>) -> Vec<(Option<u64>, SocketAddr)> {
        let mut muster = lock(&self.muster);
        let me = muster.me();
        match (&me.entered, door) {
            (Some(view), _) => {
                let lives = |member: &&Process| !me.gone.contains(&member.id);
                view.members.iter().filter(lives).map(|member| (Some(member.id), member.address)).collect()
            }
            (None, Some(door)) => vec![(None, door)],
            (None, None) => Vec::new(),
        }
    }

    /// Those that do not answer. All are asked at once: it takes as long as one of them.
    async fn silent(self: &Arc<Self>, addresses: impl Iterator<Item = SocketAddr>) -> BTreeSet<SocketAddr> {
        let mut asked = JoinSet::new();
        for address in addresses {
            let shared = Arc::clone(self);
            asked.spawn(async move {
                for _ in 0..SILENCES {
                    let offer = Asked::Offer(shared.offer());
                    if tokio::time::timeout(ANSWER, shared.caller.ask(address, &offer)).await.is_ok() {
                        return None;
                    }
                    lock(&shared.caller.connections).remove(&address);
                }
                Some(address)
            });
        }
        asked.join_all().await.into_iter().flatten().collect()
    }

    /// Asks again and again, also those that are named, until there is something new.
    async fn ask_until(
        &self,
        first: SocketAddr,
        deadline: tokio::time::Instant,
        joins: bool,
        was_there: &mut bool,
    ) -> Result<Answer, NoAnswer> {
        let (mut at, mut silences, mut redirections) = (first, 0, 0);
        let own = lock(&self.muster).me().process.address;
        let mut mention = tokio::time::Instant::now() + MENTION;
        lock(&self.muster).follow(at);
        // A process that wants to join waits as long as it is answered.
        while tokio::time::Instant::now() < deadline || (joins && *was_there) {
            let asked = Asked::Offer(self.offer());
            match tokio::time::timeout(ANSWER, self.caller.ask(at, &asked)).await {
                Ok(Ok(Answer::Wait)) => {
                    (silences, redirections, *was_there) = (0, 0, true);
                    if joins && tokio::time::Instant::now() >= mention {
                        tracing::info!("waiting to join the run at {at}");
                        mention += MENTION * 4;
                    }
                }
                Ok(Ok(Answer::Elsewhere(next))) if next == own => return Ok(Answer::Wait),
                Ok(Ok(Answer::Elsewhere(next))) => {
                    redirections += 1;
                    if redirections > REDIRECTIONS {
                        return Ok(Answer::Wait);
                    }
                    at = next;
                    lock(&self.muster).follow(at);
                }
                // The process that leads may be lost, and another one have its address.
                Ok(Ok(Answer::Refused(reason))) if at != first => {
                    silences += 1;
                    if silences >= SILENCES {
                        return Err(NoAnswer::Silent(format!("{at}: {reason}")));
                    }
                    at = first;
                }
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(NoAnswer::Gone)) if at == first => return Err(NoAnswer::Gone),
                Ok(Err(error)) => {
                    silences += 1;
                    if silences >= SILENCES {
                        return Err(error.passing());
                    }
                    at = first;
                }
                Err(_) => {
                    lock(&self.caller.connections).remove(&at);
                    silences += 1;
                    if silences >= SILENCES {
                        return Err(NoAnswer::Silent("it does not answer".to_owned()));
                    }
                    at = first;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(Answer::Wait)
    }
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

    /// Asks once.
    async fn ask(&self, at: SocketAddr, asked: &Asked) -> Result<Answer, NoAnswer> {
        let content = postcard::to_stdvec(asked).expect("what is asked can be serialised");
        let (mut client, dialled) = match self.client(at).await {
            Ok(client) => client,
            Err(DialError::Io(error)) if innermost_kind(&error) == Some(io::ErrorKind::ConnectionRefused) => {
                return Err(NoAnswer::Gone);
            }
            Err(DialError::Io(error)) => return Err(NoAnswer::Silent(root_cause(&error))),
            Err(DialError::Tls(error)) => return Ok(Answer::Refused(error.to_string())),
        };
        match client.muster(self.word(content)).await {
            Ok(answer) => postcard::from_bytes(&answer.into_inner().content)
                .map_err(|error| NoAnswer::Silent(format!("its answer cannot be read: {error}"))),
            Err(status) => {
                lock(&self.connections).remove(&at);
                if dialled.needs_tls() {
                    Ok(Answer::Refused(TlsError::TlsPeer.to_string()))
                } else if matches!(status.code(), Code::Unauthenticated | Code::FailedPrecondition) {
                    Ok(Answer::Refused(status.message().to_owned()))
                } else if status.code() == Code::Unimplemented {
                    Ok(Answer::Refused("it is no process of a run with --copies".to_owned()))
                } else {
                    Err(NoAnswer::Silent(said(&status)))
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

/// What a status says.
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

/// Serves on `listener`, on the runtime that calls, as long as it lives.
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

    /// A process whose machine stands still: its system accepts connections, and nothing answers.
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
        // 3 s for the first one and for all others, 5 s of patience, 6 s of hope. One after the other, they
        // would take 24 s instead of 6.
        let error = standby.muster(&[], None, Duration::from_secs(29)).expect_err("it is one of nine");
        assert!(matches!(error, MusterError::Stuck(_)), "{error}");
    }
}
