//! The cost of an epoch: accesses, CPU time, messages, seconds.
//!
//! An epoch lasts from the moment at which all workers may train to the moment at which the cluster is
//! quiescent again. Evaluation lies between epochs and is not charged to them. The one exception is a loader
//! that prepares the next epoch: its CPU time is charged to the epoch in which it runs.

use super::parameters::NodeHandle;
use crate::clock::now;
use crate::report::Tally;
use crate::report::metrics::{Before, Costs, Queues, Watch};
use intendant::ManagementStats;
use intendant::{AccessStats, NetworkStats};
use intendant_metrics::process;
use intendant_sampling::SamplingStats;
use intendant_task::{Progress, Reduction};
use std::time::Instant;

/// Accesses before this share of a worker's batches has been trained are start-up.
const START_UP: f64 = 0.05;

/// Measures one worker's epochs; the first worker of a node also its process and its messages.
pub(crate) struct Meter<'a> {
    node: Option<&'a dyn NodeHandle>,
    start: Instant,
    seconds: f64,
    at_start: AccessStats,
    /// The end of start-up.
    at_late: AccessStats,
    is_late: bool,
    at_end: AccessStats,
    cpu_start_ns: u64,
    cpu_ns: u64,
    traffic_start: NetworkStats,
    traffic: NetworkStats,
    management_start: ManagementStats,
    management: ManagementStats,
    sampling_start: SamplingStats,
    sampling: SamplingStats,
    /// Whether the next quiescence ends an epoch.
    flushed: bool,
    /// Publishes what is measured, if metrics are served.
    watch: Option<Watch<'a>>,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(first: bool, node: &'a dyn NodeHandle, watch: Option<Watch<'a>>) -> Self {
        Self {
            node: first.then_some(node),
            start: now(),
            seconds: 0.0,
            at_start: AccessStats::default(),
            at_late: AccessStats::default(),
            is_late: false,
            at_end: AccessStats::default(),
            cpu_start_ns: 0,
            cpu_ns: 0,
            traffic_start: NetworkStats::default(),
            traffic: NetworkStats::default(),
            management_start: ManagementStats::default(),
            management: ManagementStats::default(),
            sampling_start: SamplingStats::default(),
            sampling: SamplingStats::default(),
            flushed: false,
            watch,
        }
    }

    /// An epoch may begin; [`Meter::rest`] was called before the barrier.
    pub(crate) fn begin(&mut self, accesses: AccessStats) {
        (self.at_start, self.at_late, self.at_end) = (accesses, accesses, accesses);
        (self.seconds, self.cpu_ns, self.traffic) = (0.0, 0, NetworkStats::default());
        self.management = ManagementStats::default();
        self.sampling = SamplingStats::default();
        self.start = now();
        self.is_late = false;
        if self.node.is_some() {
            self.cpu_start_ns = process::cpu_ns();
        }
    }

    /// A batch has been trained.
    pub(crate) fn step(
        &mut self,
        progress: &Progress,
        accesses: impl FnOnce() -> AccessStats,
        queues: impl FnOnce() -> Queues,
    ) {
        let is_late =
            !self.is_late && progress.batches >= (progress.batches_total as f64 * START_UP).ceil() as u64;
        if !is_late && self.watch.is_none() {
            return;
        }
        let accesses = accesses();
        if is_late {
            (self.is_late, self.at_late) = (true, accesses);
        }
        if let Some(watch) = &mut self.watch {
            if self.node.is_some() && progress.batches == 1 {
                watch.start(|| Before {
                    start: self.start,
                    cpu_ns: self.cpu_start_ns,
                    traffic: self.traffic_start,
                    management: self.management_start.clone(),
                });
            }
            watch.batch(progress, accesses.since(&self.at_start), queues());
        }
    }

    /// The cluster is at rest until this worker reaches the next barrier: what the node counts from here on
    /// belongs to the next epoch.
    pub(crate) fn rest(&mut self) {
        if let Some(node) = self.node {
            self.traffic_start = node.traffic();
            self.management_start = node.management();
        }
    }

    /// The worker has trained its part of the epoch.
    pub(crate) fn flushed(&mut self, accesses: AccessStats) {
        self.at_end = accesses;
        self.flushed = true;
    }

    /// The cluster is quiescent.
    pub(crate) fn quiesced(&mut self) {
        if !std::mem::take(&mut self.flushed) {
            return;
        }
        let accesses = self.at_end.since(&self.at_start);
        let mut epochs = self.watch.as_mut().map(|watch| {
            watch.epoch(accesses);
            watch.end()
        });
        let sampling = self.measure();
        if let (Some(epochs), Some(_)) = (&mut epochs, self.node) {
            epochs.end(&Costs {
                seconds: self.seconds,
                cpu_ns: self.cpu_ns,
                traffic: self.traffic,
                management: self.management.clone(),
            });
        }
        drop(epochs);
        // Samples that were prepared ahead of the epoch belong to it.
        self.sampling_start = sampling.unwrap_or(self.sampling_start);
    }

    /// Measures the epoch so far; the node's samples since it started.
    fn measure(&mut self) -> Option<SamplingStats> {
        self.seconds = (now() - self.start).as_secs_f64();
        let node = self.node?;
        self.cpu_ns = process::cpu_ns().saturating_sub(self.cpu_start_ns);
        self.traffic = node.traffic().since(&self.traffic_start);
        self.management = node.management().since(&self.management_start);
        let sampling = node.sampling();
        self.sampling = sampling.since(&self.sampling_start);
        Some(sampling)
    }

    /// This worker's part of the epoch, encoded for the others.
    pub(crate) fn tell(&self, reduction: Reduction) -> Vec<u8> {
        let tally = Tally {
            reduction,
            accesses: self.at_end.since(&self.at_start),
            late: if self.is_late { self.at_end.since(&self.at_late) } else { AccessStats::default() },
            cpu_ns: self.cpu_ns,
            traffic: self.traffic,
            management: self.management.clone(),
            sampling: self.sampling,
        };
        tally.encode()
    }

    /// This worker's part of the epoch so far, encoded for the others.
    pub(crate) fn tell_so_far(&mut self, reduction: Reduction, accesses: AccessStats) -> Vec<u8> {
        self.at_end = accesses;
        self.measure();
        self.tell(reduction)
    }

    /// How long the epoch took, or has taken when [`Meter::tell_so_far`] was called.
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::TrainError;
    use intendant_sampling::{Handle, SampleError};
    use intendant_task::SampleRequest;

    struct Counting;

    impl NodeHandle for Counting {
        fn abort(&self, _reason: &str) {}

        fn drop_out(&self, _reason: &str) {}

        fn traffic(&self) -> NetworkStats {
            NetworkStats { messages: 7, bytes: 70, ..NetworkStats::default() }
        }

        fn sampling(&self) -> SamplingStats {
            SamplingStats::default()
        }

        fn prepare_sample(&self, _request: &SampleRequest) -> Result<Handle, SampleError> {
            unreachable!("nothing is sampled")
        }

        fn observer(&self) -> std::sync::Arc<dyn crate::report::metrics::Observe> {
            unreachable!("nothing is observed")
        }

        fn intend(&self, _: usize, _: &intendant_task::Announcement) -> Result<(), TrainError> {
            Ok(())
        }

        fn management(&self) -> ManagementStats {
            ManagementStats { relocations: 5, ..ManagementStats::default() }
        }
    }

    fn accesses(local: u64, remote: u64) -> AccessStats {
        AccessStats { pull_keys: local + remote, local, remote, ..AccessStats::default() }
    }

    #[test]
    fn start_up_ends_after_a_twentieth_of_the_batches_and_evaluation_is_not_counted() {
        let mut meter = Meter::new(true, &Counting, None);
        meter.rest();
        meter.begin(accesses(1000, 0));
        for batches in 1..=100 {
            let progress = Progress { batches, batches_total: 100, ..Progress::default() };
            meter.step(&progress, || accesses(1000, batches), Queues::default);
        }
        meter.flushed(accesses(1000, 100));
        meter.quiesced();
        // Pulls of an evaluation follow.
        let told = Tally::decode(&meter.tell(Reduction::default())).expect("well-formed");
        assert_eq!(told.accesses, accesses(0, 100));
        assert_eq!(told.late, accesses(0, 95));
        assert_eq!(told.traffic, NetworkStats::default(), "nothing was sent between begin and quiesced");
        assert_eq!(told.management, ManagementStats::default());
    }

    #[test]
    fn only_the_first_worker_of_a_node_tells_what_the_process_used() {
        for (first, told) in [(true, true), (false, false)] {
            let mut meter = Meter::new(first, &Counting, None);
            meter.begin(AccessStats::default());
            while process::cpu_ns() == meter.cpu_start_ns {}
            meter.flushed(AccessStats::default());
            meter.quiesced();
            assert_eq!(meter.cpu_ns > 0, told);
        }
    }
}
