//! A node of the cluster: its store, its channels' threads, its place among the others.

mod lobby;
mod windows;

pub use lobby::{Lobby, open_standby, scale};

use crate::attendance::{Attendance, Calls};
use crate::awake::Awake;
use crate::capacity::Demand;
use crate::channel::{self, ChannelLoop};
use crate::config::NodeConfig;
use crate::delivery::Delivery;
use crate::error::Error;
use crate::inbox::{Command, inbox};
use crate::mailbox::{MailReceiver, mailbox};
use crate::observer::Observer;
use crate::parts::{DOWN, NodeParts};
use crate::preparer::Preparer;
use crate::priority::{self, Work};
use crate::recording::Recording;
use crate::traffic::Traffic;
use crate::worker::Worker;
use intendant_control::MonotonicClock;
use intendant_control::{Failure, FailureKind};
use intendant_core::{ChannelId, Element, Layout, NodeId, WorkerId, limits, lock};
use intendant_engine::{
    Advanced, Channel, ClusterSettings, LookTimer, ManagementStats, NetworkStats, Shared, SharedConfig,
};
use intendant_membership::{Aborter, Group, Health, Meetings, Membership};
use intendant_sampling::{Manager, SamplingStats};
use intendant_trace::Mark;
use intendant_transport::socket::{self, Links};
use intendant_transport::{FabricBuilder, Transport, local};
use intendant_wire::{Packer, Saved, Unpacker};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// A node of the cluster.
///
/// A node that is dropped without [`Node::shutdown`] is lost to the others: their calls fail.
pub struct Node<E: Element> {
    inner: Arc<NodeParts<E>>,
    /// Taken by [`Node::workers`].
    deliveries: Option<Vec<MailReceiver<Delivery>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    traffic: Arc<Traffic>,
    /// Refuses latecomers as long as the node lives.
    mesh: Option<MeshGuard>,
    left: bool,
}

/// Keeps the accepting side of the data plane alive.
struct MeshGuard {
    mesh: socket::Mesh,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for MeshGuard {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Threads of a node in addition to those of workers and channels: one of the control plane, and one that
/// accepts connections.
const OWN_THREADS: usize = 2;

/// Checks, before anything is allocated, that `here` nodes fit into this process and `machine` nodes into
/// this machine.
fn check_fits<E: Element>(
    config: &NodeConfig<E>,
    layout: &Layout,
    here: usize,
    machine: usize,
) -> Result<(), Error> {
    let threads = config.workers * config.threads_per_worker + layout.channels() + OWN_THREADS;
    let assignment = &config.cluster.replication.assignment;
    let demand = Demand::new::<E>(
        layout,
        config.cluster.storage,
        &config.cluster.policy(),
        assignment,
        threads as u64,
    );
    Ok(demand.check(here as u64, machine as u64)?)
}

fn distribute<E: Element>(config: &NodeConfig<E>, nodes: usize) -> Result<Arc<Layout>, Error> {
    if !(1..=limits::WORKERS_MAX).contains(&config.workers) {
        let (workers, max) = (config.workers, limits::WORKERS_MAX);
        return Err(Error::Config(format!("a node with {workers} workers; allowed are 1 to {max}")));
    }
    let layout = &config.layout;
    config.check_replication(layout)?;
    let (channels, shards) = (layout.channels(), layout.shards());
    Ok(Arc::new(layout.redistribute(nodes, channels, shards, layout.order(), layout.seed())?))
}

impl<E: Element> Node<E> {
    /// A cluster of one node, without sockets.
    ///
    /// # Errors
    /// If the configuration makes no sense or the operating system refuses a thread.
    #[inline(never)]
    pub fn start_alone(config: NodeConfig<E>) -> Result<Self, Error> {
        let mut nodes = Self::start_local(config, 1)?;
        Ok(nodes.pop().expect("one node was asked for"))
    }

    /// A cluster of several nodes in this process, connected by queues. The nodes are in rank order.
    ///
    /// # Errors
    /// If the configuration makes no sense or the operating system refuses a thread.
    #[inline(never)]
    pub fn start_local(mut config: NodeConfig<E>, nodes: usize) -> Result<Vec<Self>, Error> {
        if let Some(trace) = &mut config.trace {
            trace.choose_run();
        }
        let layout = distribute(&config, nodes)?;
        check_fits(&config, &layout, nodes, nodes)?;
        let group = Group::new(nodes);
        let fabrics = local::mesh(nodes, layout.channels());
        let ranks = (0..nodes).map(|rank| NodeId(rank as u16));
        ranks
            .zip(fabrics)
            .map(|(rank, fabrics)| {
                let membership = Membership::Group { rank, group: Arc::clone(&group) };
                let fabrics = fabrics.into_iter().map(FabricBuilder::from).collect();
                Self::start(config.clone(), Arc::clone(&layout), rank, membership, fabrics, None, nodes, None)
            })
            .collect()
    }

    /// `nodes_here` nodes share the machine, this one included. With a `secret`, each of them is a process.
    #[expect(clippy::too_many_arguments, reason = "what a node of a process and one of many have in common")]
    fn start(
        config: NodeConfig<E>,
        layout: Arc<Layout>,
        rank: NodeId,
        membership: Membership,
        fabrics: Vec<FabricBuilder>,
        mesh: Option<MeshGuard>,
        nodes_here: usize,
        secret: Option<windows::Secret>,
    ) -> Result<Self, Error> {
        let policy = config.cluster.policy();
        let NodeConfig {
            init,
            sampler,
            seed,
            workers,
            cluster: ClusterSettings { storage, access, replication, packing, .. },
            outstanding_bytes,
            trace,
            transport,
            windows,
            ..
        } = config;
        let may_read = windows && transport != Transport::Tcp;
        let shared = SharedConfig {
            node: rank,
            layout: Arc::clone(&layout),
            init,
            storage,
            access,
            policy,
            replication,
            workers,
        };
        let clock = MonotonicClock::start();
        let (membership, health) = (Arc::new(membership), Arc::new(Health::default()));
        membership.watch(&health);
        // The windows come after the store, because the node can do without windows.
        let shared = Shared::new(shared);
        let sampler = sampler.settled(policy.movement(layout.nodes()));
        shared.keep_near(&sampler);
        let opened = match secret {
            Some(secret) => windows::open(&shared, may_read, &membership, &health, secret)?,
            None => None,
        };
        let shared = Arc::new(match opened {
            Some(windows) => shared.with_windows(windows),
            None => shared,
        });
        let filter = trace.as_ref().map(|trace| trace.filter.clone());
        let recording = trace.map(|trace| Recording::start(trace, &shared, clock)).transpose()?;
        let traffic = Arc::new(Traffic::default());
        let awake = Awake::default();
        let (senders, deliveries): (Vec<_>, Vec<_>) = (0..workers).map(|_| mailbox(&awake)).unzip();
        let (inboxes, receivers): (Vec<_>, Vec<_>) = fabrics.iter().map(|_| inbox()).unzip();
        // The callback is set before the first thread starts, so that any later failure ends the threads that
        // have started.
        let (woken, stopped) = (senders.clone(), inboxes.clone());
        health.on_failure(move |failure| {
            for worker in &woken {
                worker.send(Delivery::Failed(failure.clone()));
            }
            for inbox in &stopped {
                inbox.send(Command::Stop);
            }
        });
        let cores = thread::available_parallelism().map_or(1, usize::from) / nodes_here;
        let shares_cores = workers + layout.channels() > cores;
        let looks = LookTimer::new(shares_cores);
        let mut threads = Vec::new();
        for (channel, (fabric, receiver)) in fabrics.into_iter().zip(receivers).enumerate() {
            let id = ChannelId(channel as u16);
            let mut engine = Channel::new(id, Arc::clone(&shared));
            if let Some(filter) = &filter {
                engine.trace(filter.clone());
            }
            let channel_loop = ChannelLoop {
                channel: engine,
                recording: recording.as_ref().and_then(|all| all.channel(id, layout.nodes())),
                clock,
                inbox: receiver,
                awake: awake.clone(),
                busy_poll: None,
                channels: layout.channels(),
                done: senders.iter().map(|_| Vec::new()).collect(),
                workers: senders.clone(),
                membership: Arc::clone(&membership),
                health: Arc::clone(&health),
                traffic: Arc::clone(&traffic),
                counted: Default::default(),
                saved: Saved::default(),
                packers: (0..layout.nodes()).map(|_| Packer::new(packing, size_of::<E>())).collect(),
                unpackers: (0..layout.nodes()).map(|_| Unpacker::new(size_of::<E>())).collect(),
                calls: Calls::new(shared.policy(), shared.replication().pace),
                looks,
            };
            let thread = thread::Builder::new()
                .name(format!("channel-{rank}-{channel}"))
                .spawn(move || channel::run(channel_loop, fabric))
                .map_err(|source| {
                    membership.abort("the operating system refused a channel's thread");
                    health.fail(Failure::misuse("the node could not start"));
                    Error::Start { what: "a channel's thread", source }
                })?;
            threads.push(thread);
        }
        let missed = |worker: usize, name: &str| {
            Failure::misuse(format!("worker {worker} was dropped and will not come to '{name}'"))
        };
        let meetings = Meetings::new(workers, missed, Arc::clone(&health));
        let attendance = Attendance::new(workers);
        let sampling = Manager::new(sampler, seed, rank.0);
        let inner = NodeParts {
            shared,
            clock,
            seed,
            sampling,
            inboxes,
            membership,
            health,
            meetings,
            attendance,
            awake,
            outstanding_bytes,
            shares_cores,
            recording,
        };
        Ok(Self {
            inner: Arc::new(inner),
            deliveries: Some(deliveries),
            threads: Mutex::new(threads),
            traffic,
            mesh,
            left: false,
        })
    }

    /// This node.
    pub fn rank(&self) -> NodeId {
        self.inner.shared.node()
    }

    /// Number of nodes of the cluster.
    pub fn nodes(&self) -> usize {
        self.inner.shared.layout().nodes()
    }

    /// The keys, distributed over the cluster.
    pub fn layout(&self) -> &Arc<Layout> {
        self.inner.shared.layout()
    }

    /// Lowers the priority of the calling thread of the program if workers and channels of this node share
    /// cores, and other nodes wait for the channels. Call it once on each thread that trains or loads, unless
    /// it must keep up with other programs of the machine. The call does nothing if there are enough cores,
    /// and on systems other than Linux.
    pub fn give_way(&self, work: Work) {
        if self.inner.shares_cores && self.nodes() > 1 {
            priority::give_way(work);
        }
    }

    /// Connections of this node to others, over all channels. Nodes of one process have none.
    pub fn links(&self) -> Links {
        self.mesh.as_ref().map_or(Links::default(), |guard| guard.mesh.links())
    }

    /// The workers of this node, to be moved to their threads. The second call returns none.
    #[inline(never)]
    pub fn workers(&mut self) -> Vec<Worker<E>> {
        let deliveries = self.deliveries.take().unwrap_or_default();
        let workers = deliveries.into_iter().enumerate();
        workers
            .map(|(id, delivery)| Worker::new(WorkerId(id as u16), Arc::clone(&self.inner), delivery))
            .collect()
    }

    /// A handle with which loader threads prepare samples and announce intents.
    pub fn preparer(&self) -> Preparer<E> {
        Preparer::new(Arc::clone(&self.inner))
    }

    /// A handle with which other threads read the statistics of this node.
    pub fn observer(&self) -> Observer<E> {
        Observer::new(Arc::clone(&self.inner), Arc::clone(&self.traffic))
    }

    /// Statistics of sampling on this node so far.
    pub fn sampling(&self) -> SamplingStats {
        self.inner.sampling.stats()
    }

    /// Messages that this node has sent so far.
    #[inline(never)]
    pub fn network(&self) -> NetworkStats {
        self.traffic.stats()
    }

    /// Statistics of parameter management on this node so far.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended.
    #[inline(never)]
    pub fn management(&self) -> Result<ManagementStats, Error> {
        Ok(self.observer().management()?)
    }

    /// Number of values that this node holds.
    #[inline(never)]
    pub fn held(&self) -> usize {
        self.inner.shared.inspect().held()
    }

    /// Records a moment of the run in the trace of this node, if it has one.
    pub fn mark(&self, mark: Mark, number: u64) {
        if let Some(recording) = &self.inner.recording {
            recording.mark(mark, number);
        }
    }

    /// Why the cluster ended, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.inner.health.check().err()
    }

    /// A handle that ends the cluster from any thread, while the node lives and afterwards.
    pub fn aborter(&self) -> Aborter {
        Aborter::new(&self.inner.membership, &self.inner.health)
    }

    /// Ends the whole cluster: every call of every worker fails from now on, blocked ones at once.
    pub fn abort(&self, reason: &str) {
        self.aborter().abort(reason);
    }

    /// Leaves without notice, as a process that dies does: the others lose this node, and every call of its
    /// workers fails from now on. Nodes of one process end together.
    pub fn drop_out(&self, reason: &str) {
        self.inner.membership.drop_out(reason);
    }

    /// Leaves in order: waits until all nodes have called this (several nodes of one process: see
    /// [`Node::shutdown_all`]). Workers cannot be used any more.
    ///
    /// # Errors
    /// If the cluster has failed or fails meanwhile; also if others still wait for workers of this node.
    /// [`Error::Trace`] if the node has left in order and its trace could not be written.
    #[inline(never)]
    pub fn shutdown(mut self) -> Result<(), Error> {
        self.inner.health.check()?;
        // No node must wait for clocks of workers that still exist but make no more calls.
        for worker in 0..self.inner.meetings.participants() {
            // Their intents last as long as the node, because others may read a snapshot.
            let clock = self.inner.shared.clocks().rest(WorkerId(worker as u16));
            self.inner.advanced(Advanced { clock, wake: Vec::new() });
        }
        self.inner.membership.leave()?;
        // From here on the coordinator does not miss this node, and peers may close before us.
        self.left = true;
        for inbox in &self.inner.inboxes {
            inbox.send(Command::Close);
        }
        self.join_threads();
        // Workers that still exist get an error instead of waiting for channels that have ended.
        self.inner.health.fail(Failure { kind: FailureKind::Left, node: None, reason: DOWN.to_owned() });
        match &self.inner.recording {
            Some(recording) => Ok(recording.end()?),
            None => Ok(()),
        }
    }

    /// Shuts down all nodes of a cluster in this process. They must shut down at the same time, because each
    /// waits for the others.
    ///
    /// # Errors
    /// The first error, if the cluster has failed or fails meanwhile.
    #[inline(never)]
    pub fn shutdown_all(nodes: Vec<Self>) -> Result<(), Error> {
        thread::scope(|scope| {
            let leaving: Vec<_> = nodes.into_iter().map(|node| scope.spawn(|| node.shutdown())).collect();
            let results: Vec<_> =
                leaving.into_iter().map(|node| node.join().expect("shutting down does not panic")).collect();
            results.into_iter().collect()
        })
    }

    fn join_threads(&self) {
        for thread in lock(&self.threads).drain(..) {
            // A panic has been turned into a failure of the cluster.
            let _ = thread.join();
        }
    }
}

impl<E: Element> Drop for Node<E> {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        if self.inner.health.check().is_ok() {
            self.abort("the node was dropped without a shutdown");
        }
        for inbox in &self.inner.inboxes {
            inbox.send(Command::Stop);
        }
        self.join_threads();
        // If the cluster has failed, its failure is known already.
        let _ = self.inner.membership.leave();
        if let Some(Err(error)) = self.inner.recording.as_ref().map(Recording::end) {
            tracing::warn!("{error}");
        }
    }
}
