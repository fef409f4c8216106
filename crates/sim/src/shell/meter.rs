//! What epochs cost, in virtual time.
//!
//! An epoch lasts from the moment at which all workers may train to the moment at which the cluster is
//! quiescent again; evaluation lies between epochs and is not charged to them.

use crate::cluster::{Cluster, ClusterLoad};
use intendant_core::Element;
use intendant_engine::{AccessStats, ManagementStats};
use intendant_sampling::SamplingStats;
use intendant_task::{Progress, Reduction};

/// Accesses before this part of a worker's batches has been trained are start-up.
const START_UP: f64 = 0.05;

/// What an epoch cost.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochOutcome {
    /// The combined sums of all workers.
    pub reduction: Reduction,
    /// Virtual time.
    pub virtual_ns: u64,
    /// Accesses of all workers.
    pub accesses: AccessStats,
    /// The part of them that came after the first 5 % of each worker's batches.
    pub late: AccessStats,
    /// What managing keys took on all nodes.
    pub management: ManagementStats,
    /// What sampling did on all nodes.
    pub sampling: SamplingStats,
    /// Messages sent by all nodes.
    pub messages: u64,
    /// Bytes of these messages, charged.
    pub bytes: u64,
    /// What threads and NICs did.
    pub load: ClusterLoad,
}

/// Counters at some moment.
#[derive(Clone, Default)]
struct Mark {
    at_ns: u64,
    management: ManagementStats,
    sampling: SamplingStats,
    messages: u64,
    bytes: u64,
    load: ClusterLoad,
}

impl Mark {
    fn now<E: Element>(cluster: &Cluster<E>, sampling: SamplingStats) -> Self {
        let (messages, bytes) = cluster.traffic();
        let management = cluster.management();
        Self { at_ns: cluster.now_ns(), management, sampling, messages, bytes, load: cluster.load() }
    }
}

/// A worker's accesses when the epoch began, when its start-up ended, and when the epoch ended.
#[derive(Clone, Copy, Default)]
struct Accesses {
    start: AccessStats,
    late: AccessStats,
    /// Whether start-up has ended.
    is_late: bool,
    end: AccessStats,
}

/// Measures epochs.
pub(super) struct Meter {
    start: Mark,
    end: Option<Mark>,
    /// What sampling did until the end of the last epoch.
    sampled: SamplingStats,
    workers: Vec<Accesses>,
}

impl Meter {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            start: Mark::default(),
            end: None,
            sampled: SamplingStats::default(),
            workers: vec![Accesses::default(); workers],
        }
    }

    /// All workers may train.
    pub(super) fn begin<E: Element>(&mut self, cluster: &Cluster<E>) {
        // What was prepared ahead of the epoch is of the epoch.
        (self.start, self.end) = (Mark::now(cluster, self.sampled), None);
        for (worker, accesses) in self.workers.iter_mut().enumerate() {
            let now = cluster.accesses(worker);
            *accesses = Accesses { start: now, late: now, is_late: false, end: now };
        }
    }

    /// A worker has trained a batch.
    pub(super) fn step<E: Element>(&mut self, cluster: &Cluster<E>, worker: usize, progress: &Progress) {
        let counts = &mut self.workers[worker];
        if !counts.is_late && progress.batches >= (progress.batches_total as f64 * START_UP).ceil() as u64 {
            (counts.is_late, counts.late) = (true, cluster.accesses(worker));
        }
    }

    /// The cluster is quiescent. The first time since the beginning, this is the end of the epoch.
    pub(super) fn quiesced<E: Element>(&mut self, cluster: &Cluster<E>, sampling: SamplingStats) {
        if self.end.is_some() {
            return;
        }
        self.end = Some(Mark::now(cluster, sampling));
        for (worker, accesses) in self.workers.iter_mut().enumerate() {
            accesses.end = cluster.accesses(worker);
        }
    }

    /// What the epoch cost.
    pub(super) fn outcome(&mut self, reduction: Reduction) -> EpochOutcome {
        let end = self.end.as_ref().unwrap_or(&self.start);
        self.sampled = end.sampling;
        let (mut accesses, mut late) = (AccessStats::default(), AccessStats::default());
        for worker in &self.workers {
            accesses.merge(&worker.end.since(&worker.start));
            late.merge(&worker.end.since(&worker.late));
        }
        EpochOutcome {
            reduction,
            virtual_ns: end.at_ns - self.start.at_ns,
            accesses,
            late,
            management: end.management.since(&self.start.management),
            sampling: end.sampling.since(&self.start.sampling),
            messages: end.messages - self.start.messages,
            bytes: end.bytes - self.start.bytes,
            load: end.load.since(&self.start.load),
        }
    }
}
