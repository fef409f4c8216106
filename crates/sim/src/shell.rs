//! Training tasks in virtual time: runs the programs of workers ([`Driver`]) and loaders ([`Loader`]) on a
//! [`Cluster`].
//!
//! The arithmetic is executed; its duration is simulated: a step takes the time that its
//! [`Cost`](intendant_task::Cost) stands for. A run therefore trains a real model on any number of nodes,
//! with the same result on every machine.

mod cuts;
mod disk;
mod meter;
mod rows;
mod run;

pub use cuts::{Cut, CutConfig, Origin, Trained};
pub use meter::EpochOutcome;

use crate::bound::Staleness;
use crate::cluster::{Checks, Cluster, ClusterConfig};
use crate::delays::Delays;
use crate::faults::Faults;
use crate::invariants::Violation;
use crate::machine::{Charge, Machine};
use crate::network::Network;
use crate::reach::Reach;
use intendant_core::{Key, KeyOrder, LayoutError, NodeId, random};
use intendant_engine::{AccessStats, ClusterSettings, Explanation, ManagementStats, NetworkStats};
use intendant_sampling::{SampleError, Sampler};
use intendant_task::{Diverged, LookAhead, Progress, Reduction, Schedule, Task};
use intendant_techniques::Technique;
use intendant_trace::{Event, Filter, Header};
use run::TaskRun;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Configuration of a simulated training run: cluster, machines, network, faults and checks.
#[derive(Clone, Debug)]
pub struct TaskConfig {
    /// Number of nodes.
    pub nodes: usize,
    /// Workers per node.
    pub workers: usize,
    /// Channels per node.
    pub channels: usize,
    /// Shards per store, a power of two.
    pub shards: usize,
    /// How keys are assigned to homes.
    pub key_order: KeyOrder,
    /// The technique, and how nodes manage parameters.
    pub cluster: ClusterSettings,
    /// Upper bound of the keys of an operation on those rows of a batch, trained in place, that are not at
    /// the worker's node. If there are more, the worker pulls part after part, and pushes as many parts.
    /// `None` is one operation for all of them.
    pub operation_keys_max: Option<NonZeroUsize>,
    /// The distributions to sample from; `None` uses those that the task registered, unchanged.
    pub sampler: Option<Sampler>,
    /// Upper bound of the value bytes that a worker may have outstanding.
    pub outstanding_bytes_max: usize,
    /// How far a loader may run ahead; it is always allowed one batch.
    pub look_ahead: LookAhead,
    /// Epochs, and what workers do in them.
    pub schedule: Schedule,
    /// The machines and the network.
    pub delays: Delays,
    /// How differently long the arithmetic of batches takes.
    pub unevenness: Unevenness,
    /// Faults and the intervals in which they are active.
    pub faults: Faults,
    /// How checkpoints are made, if at all. [`Schedule::meets`] goes with it.
    pub cuts: Option<CutConfig>,
    /// What is recorded, if anything: see [`Observer::traces`].
    pub trace: Option<Filter>,
    /// What is checked.
    pub checks: Checks,
    /// What reads must see in the bounds of what is sent ([`EpochOutcome::bounds`]); each takes some time.
    pub bounds: Vec<Staleness>,
    /// Seed of random homes.
    pub layout_seed: u64,
    /// Seed of delays and of the order of simultaneous events. It does not affect the task's own randomness.
    pub seed: u64,
    /// Upper bound of events; a run that exceeds it fails.
    pub events_max: u64,
}

/// By how much longer the arithmetic of a batch takes than it should, at random: on real machines other
/// programs run, and caches, clocks and memory differ from moment to moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unevenness(f64);

impl Unevenness {
    /// All batches take as long as they should.
    pub const NONE: Self = Self(1.0);

    /// Batches take up to `most` times as long as they should, evenly distributed.
    ///
    /// # Panics
    /// If `most` is less than 1 or not finite.
    #[must_use]
    pub fn up_to(most: f64) -> Self {
        assert!(most >= 1.0 && most.is_finite(), "batches that take {most} times as long");
        Self(most)
    }

    /// The factor of one batch.
    fn longer(self, seed: u64, batch: &[u64]) -> f64 {
        if self == Self::NONE {
            return 1.0;
        }
        let part = random::stream(random::stream(seed, batch), &[UNEVENNESS]) >> 11;
        1.0 + (self.0 - 1.0) * part as f64 / (1u64 << 53) as f64
    }
}

/// Name of the use of the seed.
const UNEVENNESS: u64 = 17;

impl TaskConfig {
    /// The machines and the network of Lapse [thesis §3.3.1], static allocation, all checks at every event.
    ///
    /// # Panics
    /// Never: the presets exist.
    #[must_use]
    pub fn new(nodes: usize, workers: usize, schedule: Schedule) -> Self {
        let machine = Machine::named("xeon-e5-2640v2").expect("a preset");
        let network = Network::named("10gbe").expect("a preset");
        Self {
            nodes,
            workers,
            channels: 1,
            shards: 64,
            key_order: KeyOrder::Random,
            cluster: ClusterSettings::new(Technique::Classic),
            operation_keys_max: None,
            sampler: None,
            outstanding_bytes_max: intendant_core::limits::OUTSTANDING_BYTES_DEFAULT,
            look_ahead: LookAhead { batches: 4, keys: 0 },
            schedule,
            delays: Delays::of(machine, network, Charge::ACTUAL),
            unevenness: Unevenness::NONE,
            faults: Faults::none(),
            cuts: None,
            trace: None,
            checks: Checks::EveryStep,
            bounds: Vec::new(),
            layout_seed: 0,
            seed: 0,
            events_max: u64::MAX,
        }
    }

    fn operation_keys(&self) -> usize {
        self.operation_keys_max.map_or(usize::MAX, NonZeroUsize::get)
    }
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TaskFailure {
    /// The task's model does not fit the configured cluster.
    #[error("invalid layout: {0}")]
    Layout(#[from] LayoutError),
    /// An invariant was broken.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// Training diverged.
    #[error("worker {worker}: {source}")]
    Diverged {
        /// The worker whose step failed.
        worker: usize,
        /// What was not finite.
        source: Diverged,
    },
    /// The task drew more samples than it had prepared, or named an unknown distribution.
    #[error("worker {worker}: {source}")]
    Sample {
        /// The worker.
        worker: usize,
        /// The sampling error.
        source: SampleError,
    },
    /// A node died ([`crate::Fault::Crash`], [`Observer::moment`]), and the cluster with it.
    #[error("node {} died at {at_ns} ns", node.0)]
    Crashed {
        /// The node.
        node: NodeId,
        /// When, ns.
        at_ns: u64,
    },
    /// The run ended at a cut, because another number of nodes was asked for ([`CutConfig::regroup`]).
    #[error("the run goes on with {nodes} nodes")]
    Regrouped {
        /// How many of its nodes stay.
        nodes: u16,
    },
    /// A checkpoint cannot be made, or cannot be read.
    #[error("checkpoint: {0}")]
    Checkpoint(String),
    /// The observer ended the run.
    #[error("the run was stopped")]
    Stopped,
}

/// What happens to the cuts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// All workers have voted at a meeting.
    Voted {
        /// The pending cut was settled: node 0 writes its manifest.
        is_settled: bool,
        /// A cut begins.
        begins: bool,
    },
    /// For a cut, the cluster has come to rest.
    Resting,
    /// All nodes have copied their values.
    Copied,
    /// A node's part is durable.
    Written(NodeId),
    /// The manifest of a cut is durable.
    Committed(u64),
}

/// Receives the progress of a run.
pub trait Observer {
    /// Called at each moment of a cut. A node that is returned dies there.
    fn moment(&mut self, _moment: Moment) -> Option<NodeId> {
        None
    }

    /// Called when all values of a cut have been copied.
    fn cut(&mut self, _cut: &Cut) {}

    /// Called after a worker has computed a batch.
    fn batch(&mut self, _worker: usize, _progress: &Progress) {}

    /// Called after each epoch, counted from 1, with its measurements and its validation result if there was
    /// one.
    fn epoch(&mut self, _number: usize, _epoch: &EpochOutcome) {}

    /// Called before the run, if it is traced ([`TaskConfig::trace`]), with the headers of the nodes'
    /// traces.
    fn traces(&mut self, _headers: Vec<Header>) {}

    /// Called with events of a traced run, in the order of virtual time, and with the nodes that noticed
    /// them.
    fn records(&mut self, _events: Vec<(NodeId, Event)>) {}

    /// Whether the run should end early. Polled every few milliseconds of real time.
    fn stop(&mut self) -> bool {
        false
    }
}

/// Ignores all progress and never stops the run.
impl Observer for () {}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct TaskOutcome<E> {
    /// The epochs, in order.
    pub epochs: Vec<EpochOutcome>,
    /// The test evaluation, summed over all workers, if there was one.
    pub test: Option<Reduction>,
    /// Sums over all workers: one per epoch, then one of the test evaluation if there is one.
    pub combined: Vec<Reduction>,
    /// The values of all keys at the end, concatenated.
    pub values: Vec<E>,
    /// Accesses of all workers.
    pub accesses: AccessStats,
    /// Management counters of all nodes.
    pub management: ManagementStats,
    /// What all nodes have sent, in charged bytes ([`Charge`]).
    pub traffic: NetworkStats,
    /// Virtual time of the last activity, ns.
    pub virtual_ns: u64,
    /// Number of events.
    pub events: u64,
    /// Hash of all events and messages; equal runs have equal hashes.
    pub hash: u64,
    /// Per node, why the keys of [`ReplicationConfig::watched`] are where they are.
    pub explanations: Vec<Vec<(Key, Explanation)>>,
    /// The last cut, if it is a checkpoint, or why it is none. A run without cuts has none.
    pub last_cut: Result<Option<u64>, String>,
    /// Reach markers.
    pub reach: Reach,
}

/// Trains `task` to the end.
///
/// # Errors
/// See [`TaskFailure`].
pub fn run_task<T: Task>(
    task: &Arc<T>,
    config: &TaskConfig,
    observer: &mut dyn Observer,
) -> Result<TaskOutcome<T::Element>, TaskFailure> {
    resume_task(task, config, None, observer)
}

/// Trains `task` to the end, from a checkpoint if there is one. The outcome has the epochs that end in this
/// run, and the sums of all of them.
///
/// # Errors
/// See [`TaskFailure`].
pub fn resume_task<T: Task>(
    task: &Arc<T>,
    config: &TaskConfig,
    origin: Option<&Origin<T::Element>>,
    observer: &mut dyn Observer,
) -> Result<TaskOutcome<T::Element>, TaskFailure> {
    let model = task.model();
    let builder = model.layout().combine(task.combine());
    let builder = builder.nodes(config.nodes).channels(config.channels).shards(config.shards);
    let layout = Arc::new(builder.order(config.key_order).seed(config.layout_seed).build()?);
    let mut cluster = Cluster::new(ClusterConfig {
        layout,
        init: origin.map_or_else(|| Arc::clone(&model.init), Origin::init),
        storage: config.cluster.storage,
        access: config.cluster.access,
        policy: config.cluster.policy(),
        replication: config.cluster.replication.clone(),
        hosts: None,
        workers: config.workers,
        outstanding_bytes_max: config.outstanding_bytes_max,
        stale_hints: false,
        delays: config.delays,
        faults: config.faults.clone(),
        checks: config.checks,
        events_max: config.events_max,
        packing: config.cluster.packing,
        seed: config.seed,
        trace: false,
    });
    if let Some(filter) = &config.trace {
        observer.traces(cluster.record(filter));
    }
    TaskRun::new(task, config, cluster, origin, observer).run()
}
