//! What an epoch cost: accesses, CPU time, messages, seconds.
//!
//! An epoch lasts from the moment at which all workers may train to the moment at which the cluster is quiescent again;
//! evaluation lies between epochs and is not charged to them. A loader that prepares the next epoch meanwhile is the one
//! exception: its CPU time falls where it falls.

use crate::error::TrainError;
use crate::parameters::{Accesses, Home, Traffic};
use crate::tally::Tally;
use intendant::ManagementStats;
use intendant_sampling::SamplingStats;
use intendant_task::{Progress, Reduction};
use std::time::Instant;

/// Accesses before this part of a worker's batches has been trained are start-up.
const START_UP: f64 = 0.05;

/// An epoch, summed over all workers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EpochSum {
    pub(crate) tally: Tally,
    /// Measured here.
    pub(crate) seconds: f64,
}

impl EpochSum {
    pub(crate) fn new(told: &[Vec<u8>], seconds: f64) -> Result<Self, TrainError> {
        Ok(Self { tally: Tally::combine(told)?, seconds })
    }
}

/// A run, summed over all workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) epochs: Vec<EpochSum>,
    pub(crate) test: Option<EpochSum>,
}

/// Measures one worker's epochs; the first worker of a node also its process and its messages.
pub(crate) struct Meter<'a> {
    home: Option<&'a dyn Home>,
    start: Instant,
    seconds: f64,
    at_start: Accesses,
    /// Where start-up ended.
    at_late: Accesses,
    is_late: bool,
    at_end: Accesses,
    cpu_start_ns: u64,
    cpu_ns: u64,
    traffic_start: Traffic,
    traffic: Traffic,
    management_start: ManagementStats,
    management: ManagementStats,
    sampling_start: SamplingStats,
    sampling: SamplingStats,
    /// Whether the next quiescence ends an epoch.
    flushed: bool,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(first: bool, home: &'a dyn Home) -> Self {
        Self {
            home: first.then_some(home),
            start: now(),
            seconds: 0.0,
            at_start: Accesses::default(),
            at_late: Accesses::default(),
            is_late: false,
            at_end: Accesses::default(),
            cpu_start_ns: 0,
            cpu_ns: 0,
            traffic_start: Traffic::default(),
            traffic: Traffic::default(),
            management_start: ManagementStats::default(),
            management: ManagementStats::default(),
            sampling_start: SamplingStats::default(),
            sampling: SamplingStats::default(),
            flushed: false,
        }
    }

    /// An epoch may begin; [`Meter::rest`] was called before the meeting that said so.
    pub(crate) fn begin(&mut self, accesses: Accesses) {
        (self.at_start, self.at_late, self.at_end) = (accesses, accesses, accesses);
        (self.seconds, self.cpu_ns, self.traffic) = (0.0, 0, Traffic::default());
        self.management = ManagementStats::default();
        self.sampling = SamplingStats::default();
        self.start = now();
        self.is_late = false;
        if self.home.is_some() {
            self.cpu_start_ns = process_cpu_ns();
        }
    }

    /// A batch has been trained.
    pub(crate) fn step(&mut self, progress: &Progress, accesses: impl FnOnce() -> Accesses) {
        if !self.is_late && progress.batches >= (progress.batches_total as f64 * START_UP).ceil() as u64 {
            (self.is_late, self.at_late) = (true, accesses());
        }
    }

    /// The cluster is at rest, and stays so until this worker has come to the next meeting: what the node counts from here on
    /// belongs to the next epoch.
    pub(crate) fn rest(&mut self) {
        if let Some(home) = self.home {
            self.traffic_start = home.traffic();
            self.management_start = home.management();
        }
    }

    /// The worker has trained its part of the epoch.
    pub(crate) fn flushed(&mut self, accesses: Accesses) {
        self.at_end = accesses;
        self.flushed = true;
    }

    /// The cluster is quiescent.
    pub(crate) fn quiesced(&mut self) {
        if !std::mem::take(&mut self.flushed) {
            return;
        }
        self.seconds = (now() - self.start).as_secs_f64();
        if let Some(home) = self.home {
            self.cpu_ns = process_cpu_ns().saturating_sub(self.cpu_start_ns);
            let traffic = home.traffic();
            self.traffic = Traffic {
                messages: traffic.messages.saturating_sub(self.traffic_start.messages),
                bytes: traffic.bytes.saturating_sub(self.traffic_start.bytes),
            };
            self.management = home.management().since(&self.management_start);
            // What was prepared ahead of the epoch is of the epoch.
            let sampling = home.sampling();
            self.sampling = sampling.since(&self.sampling_start);
            self.sampling_start = sampling;
        }
    }

    /// This worker's part of the epoch, encoded for the others.
    pub(crate) fn tell(&self, reduction: Reduction) -> Vec<u8> {
        let tally = Tally {
            reduction,
            accesses: self.at_end.since(self.at_start),
            late: self.at_end.since(self.at_late),
            cpu_ns: self.cpu_ns,
            traffic: self.traffic,
            management: self.management.clone(),
            sampling: self.sampling,
        };
        tally.encode()
    }

    /// How long the epoch took.
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds
    }
}

#[expect(clippy::disallowed_methods, reason = "the threaded shell measures how long epochs take")]
fn now() -> Instant {
    Instant::now()
}

fn process_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_sampling::{Handle, SampleError};
    use intendant_task::SampleRequest;

    struct Counting;

    impl Home for Counting {
        fn abort(&self, _reason: &str) {}

        fn traffic(&self) -> Traffic {
            Traffic { messages: 7, bytes: 70 }
        }

        fn sampling(&self) -> SamplingStats {
            SamplingStats::default()
        }

        fn prepare_sample(&self, _request: &SampleRequest) -> Result<Handle, SampleError> {
            unreachable!("nothing is sampled")
        }

        fn intend(&self, _: usize, _: &intendant_task::Announcement) -> Result<(), TrainError> {
            Ok(())
        }

        fn management(&self) -> ManagementStats {
            ManagementStats { relocations: 5, ..ManagementStats::default() }
        }
    }

    fn accesses(local: u64, remote: u64) -> Accesses {
        Accesses { pull_keys: local + remote, local, remote, ..Accesses::default() }
    }

    #[test]
    fn start_up_ends_after_a_twentieth_of_the_batches_and_evaluation_is_not_counted() {
        let mut meter = Meter::new(true, &Counting);
        meter.rest();
        meter.begin(accesses(1000, 0));
        for batches in 1..=100 {
            let progress = Progress { batches, batches_total: 100, ..Progress::default() };
            meter.step(&progress, || accesses(1000, batches));
        }
        meter.flushed(accesses(1000, 100));
        meter.quiesced();
        // Pulls of an evaluation come after this.
        let told = Tally::decode(&meter.tell(Reduction::default())).expect("well-formed");
        assert_eq!(told.accesses, accesses(0, 100));
        assert_eq!(told.late, accesses(0, 95));
        assert_eq!(told.traffic, Traffic::default(), "nothing was sent between begin and quiesced");
        assert_eq!(told.management, ManagementStats::default());
    }

    #[test]
    fn only_the_first_worker_of_a_node_tells_what_the_process_used() {
        for (first, told) in [(true, true), (false, false)] {
            let mut meter = Meter::new(first, &Counting);
            meter.begin(Accesses::default());
            while process_cpu_ns() == meter.cpu_start_ns {}
            meter.flushed(Accesses::default());
            meter.quiesced();
            assert_eq!(meter.cpu_ns > 0, told);
        }
    }
}
