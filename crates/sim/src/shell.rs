//! Training tasks in virtual time: interprets the programs of workers ([`Driver`]) and loaders ([`Loader`])
//! on a [`Cluster`].
//!
//! The arithmetic is real, its duration is not: a step takes as long as its [`Cost`](intendant_task::Cost)
//! says. So a run trains a real model on as many nodes as wanted, the same on every machine.

mod meter;
mod run;

pub use meter::EpochOutcome;

use crate::cluster::{Checks, Cluster, ClusterConfig};
use crate::delays::Delays;
use crate::faults::Faults;
use crate::invariants::Violation;
use crate::machine::{Charge, Machine};
use crate::network::Network;
use crate::reach::Reach;
use intendant_core::{Key, KeyOrder, Layout, LayoutError};
use intendant_engine::{AccessStats, Explanation, ManagementStats, ReplicationConfig, Storage};
use intendant_sampling::{SampleError, Sampler};
use intendant_task::{Diverged, LookAhead, Progress, Reduction, Schedule, Task};
use intendant_techniques::{Order, Technique};
use run::TaskRun;
use std::sync::Arc;

/// The machines and the run.
#[derive(Clone, Debug)]
pub struct TaskConfig {
    /// Number of nodes.
    pub nodes: usize,
    /// Workers per node.
    pub workers: usize,
    /// Number of channels.
    pub channels: usize,
    /// Shards of a store, a power of two.
    pub shards: usize,
    /// How homes are assigned.
    pub key_order: KeyOrder,
    /// Dense or sparse stores.
    pub storage: Storage,
    /// The technique.
    pub technique: Technique,
    /// Order of a worker's operations on a key; `None` for the technique's own.
    pub order: Option<Order>,
    /// Whether nodes remember locations; `None` for the technique's own.
    pub caches: Option<bool>,
    /// How copies are kept; used by techniques that have some.
    pub copies: ReplicationConfig,
    /// The distributions to sample from; `None` for those that the task registered, as it did.
    pub sampler: Option<Sampler>,
    /// Bytes of values that a worker may have outstanding.
    pub outstanding_bytes_max: usize,
    /// How far a loader may be ahead; one batch at least.
    pub look_ahead: LookAhead,
    /// What is trained when.
    pub schedule: Schedule,
    /// The machines and the network.
    pub delays: Delays,
    /// What goes wrong when.
    pub faults: Faults,
    /// How much is checked.
    pub checks: Checks,
    /// Seed of random homes.
    pub layout_seed: u64,
    /// Decides everything that is random about the machines, and nothing about the task.
    pub seed: u64,
    /// Events after which the run counts as endless.
    pub events_max: u64,
}

impl TaskConfig {
    /// The machines and the network of Lapse [thesis §3.3.1], static allocation, everything checked.
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
            storage: Storage::Dense,
            technique: Technique::Classic,
            order: None,
            caches: None,
            copies: ReplicationConfig::default(),
            sampler: None,
            outstanding_bytes_max: intendant_core::limits::OUTSTANDING_BYTES_DEFAULT,
            look_ahead: LookAhead { batches: 4, keys: 0 },
            schedule,
            delays: Delays::of(machine, network, Charge::ACTUAL),
            faults: Faults::none(),
            checks: Checks::EveryStep,
            layout_seed: 0,
            seed: 0,
            events_max: u64::MAX,
        }
    }
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TaskFailure {
    /// The model of the task does not fit the machines asked for.
    #[error("the layout is refused: {0}")]
    Layout(#[from] LayoutError),
    /// An invariant was broken.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// Training stopped making sense.
    #[error("worker {worker}: {source}")]
    Diverged {
        /// The worker.
        worker: usize,
        /// Why.
        source: Diverged,
    },
    /// The task sampled what it had not prepared.
    #[error("worker {worker}: {source}")]
    Sample {
        /// The worker.
        worker: usize,
        /// Why.
        source: SampleError,
    },
    /// The observer ended the run.
    #[error("the run was stopped")]
    Stopped,
}

/// Watches a run.
pub trait Observer {
    /// A worker has computed another batch.
    fn batch(&mut self, _worker: usize, _progress: &Progress) {}

    /// An epoch, counted from 1, has ended, and its evaluation if there was one.
    fn epoch(&mut self, _number: usize, _epoch: &EpochOutcome) {}

    /// Whether the run should end early. Asked now and then.
    fn stop(&mut self) -> bool {
        false
    }
}

/// Observes nothing.
impl Observer for () {}

/// What a run brought.
#[derive(Clone, Debug)]
pub struct TaskOutcome<E> {
    /// The epochs, in order.
    pub epochs: Vec<EpochOutcome>,
    /// The combined sums of all workers of the test evaluation, if there was one.
    pub test: Option<Reduction>,
    /// The combined sums of all workers: one per epoch, then one of the test evaluation if there is one.
    pub combined: Vec<Reduction>,
    /// The values of all keys at the end, concatenated.
    pub values: Vec<E>,
    /// Accesses of all workers.
    pub accesses: AccessStats,
    /// What managing keys took on all nodes.
    pub management: ManagementStats,
    /// Messages sent by all nodes.
    pub messages: u64,
    /// Bytes of these messages, charged.
    pub bytes: u64,
    /// Virtual time.
    pub virtual_ns: u64,
    /// Events.
    pub events: u64,
    /// Hash over everything that happened.
    pub hash: u64,
    /// Why the keys of [`ReplicationConfig::watched`] are where they are, as each node sees it.
    pub explanations: Vec<Vec<(Key, Explanation)>>,
    /// What was reached.
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
    let model = task.model();
    let mut builder = Layout::builder();
    for range in &model.ranges {
        builder = builder.range(range.name, range.keys, range.len);
    }
    builder = builder.nodes(config.nodes).channels(config.channels).shards(config.shards);
    let layout = Arc::new(builder.order(config.key_order).seed(config.layout_seed).build()?);
    let cluster = Cluster::new(ClusterConfig {
        layout,
        init: Arc::clone(&model.init),
        storage: config.storage,
        policy: config.technique.policy().with(config.order, config.caches),
        copies: config.copies.clone(),
        workers: config.workers,
        outstanding_bytes_max: config.outstanding_bytes_max,
        stale_hints: false,
        delays: config.delays,
        faults: config.faults.clone(),
        checks: config.checks,
        events_max: config.events_max,
        seed: config.seed,
        trace: false,
    });
    TaskRun::new(task, config, cluster, observer).run()
}
