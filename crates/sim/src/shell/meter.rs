//! Measures epochs in virtual time: accesses, management, messages and load.
//!
//! An epoch lasts from the moment at which all workers may train until the cluster is quiescent again.
//! Evaluation happens between epochs and is not counted.

use crate::cluster::{Cluster, ClusterLoad, Probe};
use intendant_core::Element;
use intendant_engine::{AccessStats, ManagementStats, NetworkStats};
use intendant_sampling::SamplingStats;
use intendant_task::{Progress, Reduction};

/// Accesses before this fraction of a worker's batches count as start-up.
const START_UP: f64 = 0.05;

/// Measurements of one epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochOutcome {
    /// The epoch's sums over all workers.
    pub reduction: Reduction,
    /// Virtual duration, ns.
    pub virtual_ns: u64,
    /// Accesses of all workers.
    pub accesses: AccessStats,
    /// The accesses after the first 5 % of each worker's batches.
    pub late: AccessStats,
    /// Management counters of all nodes.
    pub management: ManagementStats,
    /// Sampling counters of all nodes.
    pub sampling: SamplingStats,
    /// What all nodes have sent, in charged bytes ([`crate::Charge`]).
    pub traffic: NetworkStats,
    /// Bytes of the elements in these messages, not charged with any factor.
    pub value_bytes: u64,
    /// Bytes of values that any parameter manager had to send at least, per staleness of
    /// [`TaskConfig::bounds`](super::TaskConfig::bounds). With the staleness of an epoch, they are not more
    /// than what was sent, of all epochs up to one.
    pub bounds: Vec<u64>,
    /// Load of threads and NICs.
    pub load: ClusterLoad,
}

/// Cluster-wide counters at one point in time.
#[derive(Clone, Default)]
struct Counters {
    at_ns: u64,
    management: ManagementStats,
    sampling: SamplingStats,
    traffic: NetworkStats,
    value_bytes: u64,
    load: ClusterLoad,
}

impl Counters {
    fn now<E: Element, P: Probe<E>>(cluster: &Cluster<E, P>, sampling: SamplingStats) -> Self {
        let traffic = cluster.traffic();
        let management = cluster.management();
        let value_bytes = cluster.sent_value_bytes();
        let (at_ns, load) = (cluster.now_ns(), cluster.load());
        Self { at_ns, management, sampling, traffic, value_bytes, load }
    }
}

/// A worker's access counters at three points: start of the epoch, end of start-up, end of the epoch.
#[derive(Clone, Copy, Default)]
struct Accesses {
    start: AccessStats,
    late: AccessStats,
    end: AccessStats,
}

/// Measures epochs.
pub(super) struct Meter {
    start: Counters,
    end: Option<Counters>,
    /// Sampling counters at the end of the previous epoch.
    sampled: SamplingStats,
    workers: Vec<Accesses>,
    /// By worker, whether start-up has ended. Apart from the counters, which are in no cache of the processor
    /// when a worker has trained a batch.
    late: Vec<bool>,
}

impl Meter {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            start: Counters::default(),
            end: None,
            sampled: SamplingStats::default(),
            workers: vec![Accesses::default(); workers],
            late: vec![false; workers],
        }
    }

    /// Starts an epoch: all workers may train.
    pub(super) fn begin<E: Element, P: Probe<E>>(&mut self, cluster: &Cluster<E, P>) {
        // Samples that were prepared before the epoch belong to it.
        (self.start, self.end) = (Counters::now(cluster, self.sampled), None);
        for (worker, accesses) in self.workers.iter_mut().enumerate() {
            let now = cluster.local(worker).stats();
            *accesses = Accesses { start: now, late: now, end: now };
        }
        self.late.fill(false);
    }

    /// Called after a worker has trained a batch.
    pub(super) fn step<E: Element, P: Probe<E>>(
        &mut self,
        cluster: &Cluster<E, P>,
        worker: usize,
        progress: &Progress,
    ) {
        let starts = progress.batches < (progress.batches_total as f64 * START_UP).ceil() as u64;
        if !starts && !std::mem::replace(&mut self.late[worker], true) {
            self.workers[worker].late = cluster.local(worker).stats();
        }
    }

    /// Called when the cluster is quiescent. The first call after [`Meter::begin`] ends the epoch.
    pub(super) fn quiesced<E: Element, P: Probe<E>>(
        &mut self,
        cluster: &Cluster<E, P>,
        sampling: SamplingStats,
    ) {
        if self.end.is_some() {
            return;
        }
        self.end = Some(Counters::now(cluster, sampling));
        for (worker, accesses) in self.workers.iter_mut().enumerate() {
            accesses.end = cluster.local(worker).stats();
        }
    }

    /// Measurements of the epoch that ended last, and its bounds.
    pub(super) fn outcome(&mut self, reduction: Reduction, bounds: Vec<u64>) -> EpochOutcome {
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
            traffic: end.traffic.since(&self.start.traffic),
            value_bytes: end.value_bytes - self.start.value_bytes,
            bounds,
            load: end.load.since(&self.start.load),
        }
    }
}
