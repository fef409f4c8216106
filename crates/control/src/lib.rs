#![doc = include_str!("../README.md")]
//!
//! Start at [`Control::join`]. Node 0's process hosts the *coordinator*; every node keeps one stream to it (a
//! gRPC stream over TCP). The parts: `coordinator` and `gathers` are state machines that take the time as an
//! argument. `watch` detects silent peers, `signs` reports that data arrives. `server` at the coordinator and
//! `member` at each node connect them to streams and a clock. `listen` opens the coordinator's socket, `door`
//! accepts on it, `wire` is a connection with TLS or without. [`standby`] connects the decisions of
//! `intendant-views`, for runs whose nodes change. `failure` has the reasons for which a cluster fails.
//! [`health`] queries a coordinator from outside.
//!
//! Guarantees: a node whose process ends is named at once; a node that is stopped or unreachable is named
//! after 5 s of silence. All other nodes know within one more second. A node that was itself stopped or
//! starved does not report others as lost.
//!
//! Nothing in this crate but its clock ([`MonotonicClock`], inlined) is on the path of a pull or a push.
#![deny(unsafe_code)]

mod clock;
mod coordinator;
mod credentials;
mod door;
mod failure;
mod gathers;
mod health;
mod introduction;
mod listen;
mod member;
mod proto;
mod server;
mod signs;
pub mod standby;
mod watch;
mod wire;

pub use clock::MonotonicClock;
pub use failure::{Failure, FailureKind, JoinError};
pub use health::{GatherHealth, Health, HealthError, MemberHealth, Presence, State, health};
pub use introduction::{DataPlane, Introduction, Roster};

use coordinator::Expected;
use intendant_core::NodeId;
use intendant_launch::Rendezvous;
use intendant_transport::socket::Arrivals;
use member::Shared;
use server::Hub;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A node's membership of a cluster. All threads may call all methods. No call hangs: when the cluster fails,
/// every waiting call returns the [`Failure`].
///
/// Dropping it without [`Control::leave`] ends the cluster for all other nodes.
pub struct Control {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Takes this node's seat and waits until all nodes have theirs. Node 0 starts the coordinator.
    ///
    /// # Errors
    /// See [`JoinError`]. A node that differs from node 0 ends a cluster that is still forming, on all nodes;
    /// it does not disturb a complete one.
    pub fn join(rendezvous: Rendezvous, introduction: Introduction) -> Result<(Self, Roster), JoinError> {
        for warning in rendezvous.warnings() {
            tracing::warn!("{warning}");
        }
        let listener = if rendezvous.rank() == NodeId(0) { Some(listen::open(&rendezvous)?) } else { None };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(JoinError::Start)?;
        let clock = MonotonicClock::start();
        let shared = Arc::new(Shared::new(rendezvous.rank(), rendezvous.nodes(), clock));
        let (answer, joined) = std::sync::mpsc::channel();
        let on_thread = shared.clone();
        let run =
            move || runtime.block_on(run(&on_thread, clock, &rendezvous, introduction, listener, answer));
        let thread = std::thread::Builder::new()
            .name("intendant-control".into())
            .spawn(run)
            .map_err(JoinError::Start)?;
        // If this returns an error, the drop waits for the thread: node 0 must not end before the others know
        // the reason.
        let control = Self { shared, thread: Some(thread) };
        let roster =
            joined.recv().unwrap_or_else(|_| Err(JoinError::Start(io::Error::other("its thread ended"))))?;
        Ok((control, roster))
    }

    /// This node.
    pub fn rank(&self) -> NodeId {
        self.shared.rank
    }

    /// Waits until every node has called this with the same name; returns their payloads by rank. Different
    /// threads may wait for different names at the same time, and a name may be used again and again. A
    /// payload has at most 16 MiB, and a name 200 bytes. The coordinator holds all payloads of a round in
    /// memory.
    ///
    /// # Errors
    /// The failure of the cluster; [`FailureKind::Misuse`] if the call itself is wrong, with no effect.
    pub fn gather(&self, name: &str, payload: Vec<u8>) -> Result<Vec<Vec<u8>>, Failure> {
        self.shared.gather(name, payload)
    }

    /// The reason for which the cluster ended early, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.shared.failure()
    }

    /// Calls `callback` once if the cluster fails, or now if it has failed. The callback runs on the control
    /// thread and must not block.
    pub fn on_failure(&self, callback: impl FnOnce(&Failure) + Send + 'static) {
        self.shared.on_failure(Box::new(callback));
    }

    /// The data plane exists. Bytes that arrive on it count as a sign of life, so that a full link, on which
    /// heartbeats are late, costs no node.
    pub fn watch_arrivals(&self, arrivals: Arc<Arrivals>) {
        self.shared.signs.set(arrivals);
    }

    /// The data plane lost its connection to `node`. Returns at once. Within about two seconds the cluster
    /// fails. If the coordinator has decided, the failure is its decision: a node that dies also breaks
    /// connections of nodes that only end because of it. Otherwise the failure names `node`. Has no effect
    /// once this node is leaving.
    pub fn report_lost(&self, node: NodeId, reason: &str) {
        self.shared.report_lost(node, reason);
    }

    /// Ends the whole cluster. Waits, for 1.5 s at most, until the coordinator has told the other nodes. The
    /// failure names this node.
    pub fn abort(&self, reason: &str) {
        self.shared.abort(reason);
    }

    /// Leaves the cluster without notice, as a process that dies does: the others lose this node. The failure
    /// that this node reports names this node.
    pub fn drop_out(&self, reason: &str) {
        self.shared.drop_out(reason);
    }

    /// Leaves the cluster and waits until all others have left too.
    ///
    /// # Errors
    /// The failure of the cluster, if a node is lost before leaving.
    pub fn leave(&self) -> Result<(), Failure> {
        self.shared.leave()
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("rank", &self.shared.rank).finish_non_exhaustive()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.shared.stop.notify_one();
        // A failure callback may hold the last handle. It runs on the control thread, which cannot wait for
        // itself.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the control thread panicked");
        }
    }
}

/// The control thread.
async fn run(
    shared: &Shared,
    clock: MonotonicClock,
    rendezvous: &Rendezvous,
    introduction: Introduction,
    listener: Option<TcpListener>,
    answer: std::sync::mpsc::Sender<Result<Roster, JoinError>>,
) {
    let host = |listener| host(shared, clock, rendezvous, &introduction, listener);
    let hub = match listener.map(host).transpose() {
        Ok(hub) => hub,
        Err(error) => {
            let _ = answer.send(Err(JoinError::Start(error)));
            return;
        }
    };
    let own = hub.as_ref().map(|(_, own)| *own);
    match member::connect(shared, rendezvous, &introduction, own).await {
        Ok(stream) => member::attend(shared, stream, answer).await,
        Err(error) => {
            let _ = answer.send(Err(error));
        }
    }
    shared.hang_up();
    if let Some((hub, _)) = hub {
        hub.drain().await;
    }
}

/// Starts the coordinator.
fn host(
    shared: &Shared,
    clock: MonotonicClock,
    rendezvous: &Rendezvous,
    introduction: &Introduction,
    listener: TcpListener,
) -> io::Result<(Arc<Hub>, SocketAddr)> {
    let own = listen::own_address(&listener)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let cluster = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
    let expected = Expected {
        protocol: introduction.protocol,
        version: introduction.version.clone(),
        nodes: rendezvous.nodes(),
        layout: introduction.layout,
        data: introduction.data.map(|data| (data.element, data.channels)),
        settings: introduction.settings.clone(),
        deadline_us: rendezvous.join_deadline().as_micros() as u64,
    };
    let (token, tls) = (rendezvous.cluster_token().cloned(), rendezvous.cluster_tls().cloned());
    let signs = Arc::clone(&shared.signs);
    Ok((Hub::start(listener, clock, expected, cluster, token, tls, signs), own))
}
