//! Training tasks in virtual time: interprets the programs of workers ([`Driver`]) and loaders ([`Loader`]) on a [`Cluster`].
//!
//! The arithmetic is real, its duration is not: a step takes as long as its [`Cost`](intendant_task::Cost) says. So a run
//! trains a real model on as many nodes as wanted, the same on every machine.

use crate::cluster::{Cluster, ClusterConfig, Happened, Wait};
use crate::delays::Delays;
use crate::invariants::Violation;
use crate::meeting::{Quiescence, Stream};
use crate::reach::Reach;
use intendant_core::{Element, KeyOrder, Layout, LayoutError, copy_from_bytes};
use intendant_engine::{AccessStats, Storage};
use intendant_sampling::{SampleError, Sampler};
use intendant_task::{
    Diverged, Driver, Event, Loader, LoaderEvent, LoaderOp, Op, Partition, Prepared, Reduction, Schedule,
    Task,
};
use intendant_techniques::{Order, Technique};
use intendant_wire::{OpId, SnapshotPart};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a part of a snapshot.
const SNAPSHOT_BYTES: u32 = 64 << 10;

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
    /// Bytes of values that a worker may have outstanding.
    pub outstanding_bytes_max: usize,
    /// Batches that a loader prepares ahead; at least 1.
    pub look_ahead: usize,
    /// What is trained when.
    pub schedule: Schedule,
    /// How long the steps of an access take.
    pub delays: Delays,
    /// Picoseconds of a multiply-add.
    pub compute_ps: u64,
    /// What preparing a batch takes its loader, in nanoseconds.
    pub prepare_ns: u64,
    /// Decides everything that is random about the machines, and nothing about the task.
    pub seed: u64,
    /// Events after which the run counts as endless.
    pub events_max: u64,
}

impl TaskConfig {
    /// Machines with a 10 Gbit/s network that compute 4·10⁹ multiply-adds per second and worker.
    #[must_use]
    pub const fn new(nodes: usize, workers: usize, schedule: Schedule) -> Self {
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
            outstanding_bytes_max: intendant_core::limits::OUTSTANDING_BYTES_DEFAULT,
            look_ahead: 4,
            schedule,
            delays: Delays::ten_gigabit(),
            compute_ps: 250,
            prepare_ns: 2_000,
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
}

/// What a run brought.
#[derive(Clone, Debug)]
pub struct TaskOutcome<E> {
    /// The combined sums of all workers: one per epoch, then one of the test evaluation if there is one.
    pub combined: Vec<Reduction>,
    /// The values of all keys at the end, concatenated.
    pub values: Vec<E>,
    /// Accesses of all workers.
    pub accesses: AccessStats,
    /// Messages sent by all nodes.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
    /// Virtual time.
    pub virtual_ns: u64,
    /// Events.
    pub events: u64,
    /// Hash over everything that happened.
    pub hash: u64,
    /// What was reached.
    pub reach: Reach,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// It will wake.
    No,
    Batch,
    Pull(OpId),
    /// For room for its next call.
    Room,
    Flush,
    Barrier,
    Quiesce,
    Snapshot,
    Reduce,
    Over,
}

/// A worker: its two programs and what is between them.
struct Seat<T: Task> {
    driver: Driver<T>,
    loader: Loader<T>,
    batches: VecDeque<Prepared<T::Batch>>,
    /// Whether the loader has a batch for which there is no room.
    loader_waits: bool,
    waiting: Waiting,
    /// What the driver hears when the worker wakes.
    event: Option<Event<T::Batch>>,
    /// What the driver wanted when there was no room for it.
    postponed: Option<Op>,
    stream: Option<Stream>,
}

/// Trains `task` to the end.
///
/// # Errors
/// See [`TaskFailure`].
pub fn run_task<T: Task>(task: &Arc<T>, config: &TaskConfig) -> Result<TaskOutcome<T::Element>, TaskFailure> {
    let model = task.model();
    let mut builder = Layout::builder();
    for range in &model.ranges {
        builder = builder.range(range.name, range.keys, range.len);
    }
    builder = builder.nodes(config.nodes).channels(config.channels).shards(config.shards);
    let layout = Arc::new(builder.order(config.key_order).build()?);
    let cluster = Cluster::new(ClusterConfig {
        layout,
        init: Arc::clone(&model.init),
        storage: config.storage,
        policy: config.technique.policy().with(config.order, config.caches),
        workers: config.workers,
        outstanding_bytes_max: config.outstanding_bytes_max,
        stale_hints: false,
        delays: config.delays,
        events_max: config.events_max,
        seed: config.seed,
        trace: false,
    });
    let workers = cluster.workers() as u32;
    let seats = (0..workers)
        .map(|worker| {
            let partition = Partition { worker, workers, nodes: config.nodes as u32, threads: 1 };
            Seat {
                driver: Driver::new(Arc::clone(task), partition, config.schedule),
                loader: Loader::new(Arc::clone(task), partition, &config.schedule),
                batches: VecDeque::new(),
                loader_waits: false,
                waiting: Waiting::No,
                event: Some(Event::Start),
                postponed: None,
                stream: None,
            }
        })
        .collect();
    let sampler = model.sampler.clone();
    let run = TaskRun { cluster, seats, config, sampler, quiescence: Quiescence::default() };
    run.run()
}

struct TaskRun<'a, T: Task> {
    cluster: Cluster<T::Element>,
    seats: Vec<Seat<T>>,
    config: &'a TaskConfig,
    sampler: Sampler,
    quiescence: Quiescence,
}

impl<T: Task> TaskRun<'_, T> {
    fn run(mut self) -> Result<TaskOutcome<T::Element>, TaskFailure> {
        for worker in 0..self.seats.len() {
            self.cluster.wake(worker, 0);
            self.load(worker, LoaderEvent::Start)?;
        }
        while let Some(happened) = self.cluster.next()? {
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
                    if self.quiescence.reported(&mut self.cluster, report)? {
                        self.all_go_on(Waiting::Quiesce, |_| Event::Done);
                    }
                }
                Happened::Part { worker, part } => self.part(worker, &part)?,
            }
        }
        if let Some(worker) = self.seats.iter().position(|seat| seat.waiting != Waiting::Over) {
            let who = format!("worker {worker} waits: {:?}", self.seats[worker].waiting);
            return Err(self.cluster.stuck(&who).into());
        }
        self.cluster.check_quiescent()?;
        let (messages, bytes) = self.cluster.traffic();
        Ok(TaskOutcome {
            combined: self.seats[0].driver.combined().to_vec(),
            values: self.cluster.values(),
            accesses: self.cluster.accesses(),
            messages,
            bytes,
            virtual_ns: self.cluster.now_ns(),
            events: self.cluster.events(),
            hash: self.cluster.hash(),
            reach: *self.cluster.reach(),
        })
    }

    fn sample_error(worker: usize) -> impl Fn(SampleError) -> TaskFailure {
        move |source| TaskFailure::Sample { worker, source }
    }

    /// The loader goes on until it has a batch, which it delivers after the time that takes.
    fn load(&mut self, worker: usize, mut event: LoaderEvent) -> Result<(), TaskFailure> {
        loop {
            match self.seats[worker].loader.step(event) {
                LoaderOp::PrepareSample(request) => {
                    let handle = self.sampler.prepare(request.distribution, request.samples, request.stream);
                    event = LoaderEvent::Prepared(handle.map_err(Self::sample_error(worker))?);
                }
                LoaderOp::Deliver => {
                    self.cluster.wake_loader(worker, self.config.prepare_ns);
                    return Ok(());
                }
                LoaderOp::Done => return Ok(()),
            }
        }
    }

    /// The loader hands its batch over, or waits for room.
    fn deliver(&mut self, worker: usize) -> Result<(), TaskFailure> {
        let seat = &mut self.seats[worker];
        if seat.waiting == Waiting::Batch {
            let prepared = seat.loader.take();
            self.go_on(worker, 0, Event::Batch(prepared));
        } else if seat.batches.len() < self.config.look_ahead.max(1) {
            let prepared = seat.loader.take();
            seat.batches.push_back(prepared);
        } else {
            seat.loader_waits = true;
            return Ok(());
        }
        self.load(worker, LoaderEvent::Done)
    }

    fn go_on(&mut self, worker: usize, after_ns: u64, event: Event<T::Batch>) {
        let seat = &mut self.seats[worker];
        (seat.waiting, seat.event) = (Waiting::No, Some(event));
        self.cluster.wake(worker, after_ns);
    }

    fn all_go_on(&mut self, waiting: Waiting, event: impl Fn(usize) -> Event<T::Batch>) {
        for worker in 0..self.seats.len() {
            debug_assert_eq!(self.seats[worker].waiting, waiting, "all workers have met");
            self.go_on(worker, 0, event(worker));
        }
    }

    fn all_wait(&self, waiting: Waiting) -> bool {
        self.seats.iter().all(|seat| seat.waiting == waiting)
    }

    /// A worker goes on with its program until it has to wait.
    fn step(&mut self, worker: usize) -> Result<(), TaskFailure> {
        let seat = &mut self.seats[worker];
        let op = match (seat.postponed.take(), seat.event.take()) {
            (Some(op), _) => op,
            (None, Some(event)) => {
                seat.driver.step(event).map_err(|source| TaskFailure::Diverged { worker, source })?
            }
            (None, None) => unreachable!("a worker wakes with an event or a postponed operation"),
        };
        match op {
            Op::NextBatch => match seat.batches.pop_front() {
                Some(prepared) => {
                    let room = std::mem::take(&mut seat.loader_waits);
                    self.go_on(worker, 0, Event::Batch(prepared));
                    if room {
                        self.deliver(worker)?;
                    }
                }
                None => seat.waiting = Waiting::Batch,
            },
            Op::PullSample => {
                let sampler = &self.sampler;
                let drawn = seat.driver.draw(|handle, samples, keys| sampler.draw(handle, samples, keys));
                drawn.map_err(Self::sample_error(worker))?;
                self.go_on(worker, 0, Event::Done);
            }
            Op::Pull => {
                let samples = seat.driver.sampled_keys();
                let (keys, values) = seat.driver.pull_buffers();
                if !self.cluster.admits(worker, keys) {
                    (seat.waiting, seat.postponed) = (Waiting::Room, Some(Op::Pull));
                    return Ok(());
                }
                self.cluster.count_sampled(worker, samples);
                let called = self.cluster.pull(worker, keys, Wait::Blocking)?;
                match called.op {
                    None => {
                        values.copy_from_slice(&called.values);
                        self.go_on(worker, 0, Event::Done);
                    }
                    Some(op) => seat.waiting = Waiting::Pull(op),
                }
            }
            Op::Compute(cost) => {
                let compute_ns = cost.0.saturating_mul(self.config.compute_ps) / 1000;
                self.go_on(worker, compute_ns, Event::Done);
            }
            Op::Push => {
                let (keys, values) = seat.driver.push_buffers();
                if !self.cluster.admits(worker, keys) {
                    (seat.waiting, seat.postponed) = (Waiting::Room, Some(Op::Push));
                    return Ok(());
                }
                // Nobody waits for it until the next flush.
                self.cluster.push(worker, keys, values)?;
                self.go_on(worker, 0, Event::Done);
            }
            Op::AdvanceClock => self.go_on(worker, 0, Event::Done),
            Op::Flush if self.cluster.is_idle(worker) => self.go_on(worker, 0, Event::Done),
            Op::Flush => seat.waiting = Waiting::Flush,
            Op::Barrier => {
                seat.waiting = Waiting::Barrier;
                if self.all_wait(Waiting::Barrier) {
                    self.all_go_on(Waiting::Barrier, |_| Event::Done);
                }
            }
            // Nothing moves yet.
            Op::Localize { .. } => self.go_on(worker, 0, Event::Done),
            Op::Quiesce => {
                seat.waiting = Waiting::Quiesce;
                if self.all_wait(Waiting::Quiesce) {
                    self.quiescence.begin(&mut self.cluster);
                }
            }
            Op::Snapshot(range) => {
                seat.waiting = Waiting::Snapshot;
                seat.stream = Some(Stream::begin(&mut self.cluster, worker, range, SNAPSHOT_BYTES));
            }
            Op::Reduce => {
                seat.waiting = Waiting::Reduce;
                if self.all_wait(Waiting::Reduce) {
                    let mut sum = Reduction::default();
                    self.seats.iter().for_each(|seat| sum.merge(seat.driver.reduction()));
                    self.all_go_on(Waiting::Reduce, |_| Event::Reduced(sum.clone()));
                }
            }
            Op::Done => seat.waiting = Waiting::Over,
        }
        Ok(())
    }

    /// An operation of a worker is done.
    fn answered(&mut self, worker: usize, op: OpId) -> Result<(), TaskFailure> {
        let seat = &mut self.seats[worker];
        match seat.waiting {
            Waiting::Pull(waiting) if waiting == op => {
                let pulled = self.cluster.take_pulled(worker, op).unwrap_or_default();
                let (_, values) = seat.driver.pull_buffers();
                values.copy_from_slice(&pulled);
                self.go_on(worker, 0, Event::Done);
            }
            Waiting::Room => {
                seat.waiting = Waiting::No;
                self.cluster.wake(worker, 0);
            }
            Waiting::Flush if self.cluster.is_idle(worker) => self.go_on(worker, 0, Event::Done),
            Waiting::Pull(_)
            | Waiting::Flush
            | Waiting::No
            | Waiting::Batch
            | Waiting::Barrier
            | Waiting::Quiesce
            | Waiting::Snapshot
            | Waiting::Reduce
            | Waiting::Over => {}
        }
        Ok(())
    }

    /// A worker takes a part of the snapshot that it reads.
    fn part(&mut self, worker: usize, part: &SnapshotPart) -> Result<(), TaskFailure> {
        let mut values = vec![T::Element::ZERO; self.cluster.elements(&part.keys)];
        copy_from_bytes(&mut values, &part.values);
        let seat = &mut self.seats[worker];
        seat.driver.snapshot_part(&part.keys, &values);
        let stream = seat.stream.as_mut().expect("parts come while a stream is read");
        if stream.part(&mut self.cluster, part)? {
            seat.stream = None;
            self.go_on(worker, 0, Event::Done);
        }
        Ok(())
    }
}
