//! Interpreter of task programs: executes the operations of each worker's driver and loader on the simulated
//! cluster, and wakes them when an operation is done.

mod cuts;
mod instances;
mod loading;
mod operations;

use super::config::TaskConfig;
use super::cut::Origin;
use super::cuts::{CutTask, Cuts};
use super::disk::violation;
use super::failure::TaskFailure;
use super::meter::{EpochOutcome, Meter};
use super::observer::Observer;
use super::outcome::TaskOutcome;
use super::rows::Copies;
use crate::bound::Bounds;
use crate::cluster::{Cluster, ClusterConfig, Happened, Probe};
use crate::meeting::{Quiescence, Stream};
use intendant_core::{Element, Key, NodeId};
use intendant_engine::{AccessStats, Explanation};
use intendant_sampling::{Manager, SamplingStats};
use intendant_task::{
    Driver, Event, Loader, LoaderEvent, LookAhead, Op, Partition, Prepared, Reduction, Task,
};
use intendant_techniques::Replicas;
use intendant_trace::{Mark, What};
use intendant_wire::OpId;
use std::collections::VecDeque;
use std::sync::Arc;

/// Upper bound of the bytes of a snapshot part.
const SNAPSHOT_BYTES: u32 = 64 << 10;

/// Events between two polls of [`Observer::stop`]: a few milliseconds of real time.
const EVENTS_PER_STOP_CHECK: u64 = 1 << 14;

/// What a worker waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Nothing: a wake-up event is scheduled.
    No,
    Batch,
    Pull(OpId),
    /// For copies of rows that are not here.
    Copies(OpId),
    Localize(OpId),
    Synchronize(OpId),
    /// Until its outstanding bytes admit the postponed call.
    Room,
    Flush,
    Barrier,
    Quiesce,
    Snapshot,
    Reduce,
    /// For the votes of all workers at a meeting.
    Votes,
    /// For its own pushes, before a cut.
    CutFlush,
    /// For a cut to be copied.
    Rest,
    /// For all others, after the last cut.
    Leave,
    Over,
}

/// A worker of the task: its two programs and the batches between them.
pub(super) struct TaskWorker<T: Task> {
    pub(super) driver: Driver<T>,
    loader: Loader<T>,
    batches: VecDeque<Prepared<T::Batch>>,
    /// Sum over the queued batches: how far the loader is ahead.
    ahead: LookAhead,
    /// Whether the loader holds a finished batch because the queue is full.
    loader_waits: bool,
    pub(super) waiting: Waiting,
    /// The event to pass to the driver when the worker wakes.
    pub(super) event: Option<Event<T::Batch>>,
    /// An operation that was postponed because the worker was busy or its outstanding bytes did not admit it.
    postponed: Option<Op>,
    pub(super) stream: Option<Stream>,
    /// What it does for the cuts when it wakes.
    pub(super) cut: Option<CutTask>,
    /// Of the batch that is trained in place.
    copies: Copies<T::Element>,
    pub(super) clock: u32,
    /// The worker leaves a meeting, and advances its clock when it wakes.
    pub(super) leaves_meeting: bool,
}

/// Makes a cluster, calls `act` once with it, and drops it: each of these is much code, which does not depend
/// on the task.
#[inline(never)]
pub(super) fn with_cluster<E: Element, P: Probe<E>>(
    config: ClusterConfig<E>,
    probe: P,
    act: &mut dyn FnMut(&mut Cluster<E, P>),
) {
    act(&mut Cluster::with_probe(config, probe));
}

pub(super) struct TaskRun<'a, T: Task, P> {
    pub(super) cluster: &'a mut Cluster<T::Element, P>,
    pub(super) workers: Vec<TaskWorker<T>>,
    pub(super) config: &'a TaskConfig,
    /// One per node.
    sampling: Vec<Manager>,
    pub(super) quiescence: Quiescence,
    pub(super) meter: Meter,
    bounds: Bounds,
    epochs: Vec<EpochOutcome>,
    /// The combined sums of the test.
    test: Option<Reduction>,
    /// Memory for the values of a part of a snapshot.
    pub(super) snapshot: Vec<T::Element>,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) cuts: Option<Cuts<T::Element>>,
    /// A node dies now.
    pub(super) dies: Option<NodeId>,
}

impl<'a, T: Task, P: Probe<T::Element>> TaskRun<'a, T, P> {
    pub(super) fn new(
        task: &Arc<T>,
        config: &'a TaskConfig,
        cluster: &'a mut Cluster<T::Element, P>,
        origin: Option<&Origin<T::Element>>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let start = origin.map(|origin| origin.start().clone()).unwrap_or_default();
        let newest = origin.and_then(Origin::newest);
        let cuts = config
            .cuts
            .as_ref()
            .map(|cuts| Cuts::new(cuts, cluster.layout(), config.workers, config.seed, newest));
        let workers = cluster.workers() as u32;
        let state = |worker| {
            let partition = Partition { worker, workers, nodes: config.nodes as u32, threads: 1 };
            let sums = origin.map(|origin| origin.sums(worker)).unwrap_or_default();
            let mut driver = Driver::resume(Arc::clone(task), partition, config.schedule, &start, sums);
            driver.meet_after(cuts.as_ref().map(Cuts::first_meeting));
            TaskWorker {
                driver,
                loader: Loader::resume(Arc::clone(task), partition, &config.schedule, &start),
                batches: VecDeque::new(),
                ahead: LookAhead::default(),
                loader_waits: false,
                waiting: Waiting::No,
                event: Some(Event::Start),
                postponed: None,
                stream: None,
                cut: None,
                copies: Copies::default(),
                clock: 0,
                leaves_meeting: false,
            }
        };
        let movement = config.cluster.technique.policy().movement(config.nodes);
        let sampler = config.sampler.as_ref().unwrap_or(&task.model().sampler).settled(movement);
        cluster.nodes().iter().for_each(|node| node.keep_near(&sampler));
        let manager = |node| Manager::new(sampler.clone(), config.layout_seed, node);
        let sampling = (0..config.nodes as u16).map(manager).collect();
        let (layout, element) = (cluster.layout(), size_of::<T::Element>());
        let bounds = Bounds::new(layout, element, &config.bounds, config.workers);
        let states = (0..workers).map(state).collect();
        Self {
            meter: Meter::new(cluster.workers()),
            bounds,
            cluster,
            workers: states,
            cuts,
            dies: None,
            config,
            sampling,
            quiescence: Quiescence::default(),
            epochs: Vec::new(),
            test: None,
            snapshot: Vec::new(),
            observer,
        }
    }

    pub(super) fn run(mut self) -> Result<TaskOutcome<T::Element>, TaskFailure> {
        self.meter.begin(self.cluster);
        for worker in 0..self.workers.len() {
            self.cluster.wake(worker, 0);
            self.load(worker, LoaderEvent::Start)?;
        }
        while let Some(happened) = self.cluster.next()? {
            self.prefetch_next();
            self.write_on()?;
            match happened {
                Happened::Internal => {}
                Happened::Awake(worker) => self.step(worker)?,
                Happened::Loaded(worker) => self.deliver(worker)?,
                Happened::Answered { worker, op, done } => {
                    if done {
                        self.answered(worker, op)?;
                    }
                }
                Happened::Reported(report) => {
                    if !self.quiescence.reported(self.cluster, report)? {
                    } else if self.workers[0].waiting == Waiting::Rest {
                        self.copy()?;
                    } else {
                        self.meter.quiesced(self.cluster, self.sampled());
                        self.resume_all(Waiting::Quiesce, |_| Event::Done);
                    }
                }
                Happened::Part { worker, part } => self.part(worker, &part)?,
            }
            self.live()?;
            if self.cluster.has_events() {
                self.observer.records(self.cluster.take_events());
            }
            if self.cluster.events().is_multiple_of(EVENTS_PER_STOP_CHECK) && self.observer.stop() {
                return Err(TaskFailure::Stopped);
            }
        }
        if let Some(worker) = self.workers.iter().position(|state| state.waiting != Waiting::Over) {
            let who = format!("worker {worker} waits: {:?}", self.workers[worker].waiting);
            return Err(self.cluster.stuck(&who).into());
        }
        self.cluster.check_quiescent()?;
        if self.config.trace.is_some() {
            self.observer.records(self.cluster.take_events());
        }
        let traffic = self.cluster.traffic();
        let combined = self.workers[0].driver.combined().to_vec();
        let explanations = self.explanations();
        let mut accesses = AccessStats::default();
        (0..self.workers.len()).for_each(|worker| accesses.merge(&self.cluster.local(worker).stats()));
        Ok(TaskOutcome {
            epochs: self.epochs,
            test: self.test,
            combined,
            values: self.cluster.values(),
            accesses,
            management: self.cluster.management(),
            traffic,
            virtual_ns: self.cluster.last_activity_ns(),
            events: self.cluster.events(),
            hash: self.cluster.hash(),
            explanations,
            last_cut: self.cuts.as_mut().map_or(Ok(None), Cuts::last),
            reach: *self.cluster.reach(),
        })
    }

    /// Fetches the batches of the next events. Between two events of a worker those of all others pass: in
    /// large clusters, what was prepared for it is in no cache of the processor any more.
    fn prefetch_next(&self) {
        for (at, event) in self.cluster.upcoming().enumerate() {
            let Some((worker, is_loader)) = event else { continue };
            let TaskWorker { driver, loader, batches, .. } = &self.workers[worker];
            let prepared = if is_loader { loader.upcoming() } else { driver.upcoming().or(batches.front()) };
            match prepared {
                Some(prepared) if at == 0 => prepared.prefetch_keys(),
                Some(prepared) => prepared.prefetch(),
                None => {}
            }
        }
    }

    /// Ends what has been written by now.
    fn write_on(&mut self) -> Result<(), TaskFailure> {
        let Some(cuts) = &mut self.cuts else { return Ok(()) };
        let now_ns = self.cluster.now_ns();
        let written = cuts.disk.advance(&|_| now_ns, self.observer);
        self.dies = written.map_err(violation(self.cluster))?;
        self.live()
    }

    /// Ends the run if a node dies now.
    fn live(&mut self) -> Result<(), TaskFailure> {
        let at_ns = self.cluster.now_ns();
        let Some(node) = self.dies.or_else(|| self.config.faults.crashed(at_ns)) else { return Ok(()) };
        if let Some(cuts) = &mut self.cuts {
            cuts.disk.crash(node, at_ns).map_err(violation(self.cluster))?;
        }
        Err(TaskFailure::Crashed { node, at_ns })
    }

    /// Per node, why the watched keys are where they are.
    fn explanations(&self) -> Vec<Vec<(Key, Explanation)>> {
        let watched = &self.config.cluster.replication.watched;
        let of = |node| watched.iter().map(|key| (*key, self.cluster.explain(node, *key))).collect();
        (0..self.config.nodes).map(of).collect()
    }

    /// Sampling counters of all nodes.
    fn sampled(&self) -> SamplingStats {
        let mut sum = SamplingStats::default();
        self.sampling.iter().for_each(|manager| sum.merge(&manager.stats()));
        sum
    }

    /// Schedules the wake-up of a worker with `event`.
    fn resume_worker(&mut self, worker: usize, after_ns: u64, event: Event<T::Batch>) {
        let state = &mut self.workers[worker];
        (state.waiting, state.event) = (Waiting::No, Some(event));
        self.cluster.wake(worker, after_ns);
    }

    /// Wakes all workers after a meeting that all of them have reached.
    fn resume_all(&mut self, waiting: Waiting, event: impl Fn(usize) -> Event<T::Batch>) {
        let meeting_ns = self.cluster.meeting_ns();
        let latest = self.workers.iter().map(|state| state.clock).max().unwrap_or(0);
        let clocked = self.config.cluster.technique.policy().replicas.is_some_and(Replicas::is_clocked);
        for worker in 0..self.workers.len() {
            debug_assert_eq!(self.workers[worker].waiting, waiting, "all workers have met");
            if clocked {
                (self.workers[worker].clock, self.workers[worker].leaves_meeting) = (latest, true);
            }
            if waiting != Waiting::Quiesce {
                // No worker reads a snapshot any longer, so channels may act again.
                self.cluster.resume(worker / self.config.workers);
            }
            self.resume_worker(worker, meeting_ns, event(worker));
        }
    }

    /// A worker reaches a meeting. Returns whether all workers have reached it.
    pub(super) fn meet(&mut self, worker: usize, waiting: Waiting) -> bool {
        // A resting worker does not hold back the global clock.
        self.cluster.rest(worker);
        self.workers[worker].waiting = waiting;
        self.workers.iter().all(|state| state.waiting == waiting)
    }

    /// All workers have reached a reduction, which ends an epoch or the test: combines their sums.
    fn reduce(&mut self) {
        let mut sum = Reduction::default();
        self.workers.iter().for_each(|state| sum.merge(state.driver.reduction()));
        let driver = &self.workers[0].driver;
        let (trained, is_test) = (driver.combined().len(), driver.is_testing());
        let is_end = !is_test && driver.ends_with(&sum);
        if is_test {
            self.test = Some(sum.clone());
        } else {
            let bounds = self.bounds.end_epoch();
            let epoch = self.meter.outcome(sum.clone(), bounds);
            self.observer.epoch(trained + 1, &epoch);
            let what = What::Marked { mark: Mark::Epoch, number: trained as u64 + 1 };
            self.cluster.note_event(NodeId(0), what);
            self.epochs.push(epoch);
        }
        if let Some(cuts) = self.cuts.as_mut().filter(|_| !is_test) {
            cuts.between = Some((sum, is_end));
            self.go_on(&CutTask::Meet);
            return;
        }
        self.resume_all(Waiting::Reduce, |_| Event::Reduced(sum.clone()));
        self.meter.begin(self.cluster);
    }
}
