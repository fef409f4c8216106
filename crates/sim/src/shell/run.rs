//! The interpreter: does what the programs of workers and loaders want, in virtual time.

use super::meter::Meter;
use super::{EpochOutcome, Observer, TaskConfig, TaskFailure, TaskOutcome};
use crate::cluster::{Caller, Cluster, Happened, Wait};
use crate::delays::Delays;
use crate::meeting::{Quiescence, Stream};
use intendant_core::{Clock, Element, Key, Tick, copy_from_bytes};
use intendant_engine::{AccessStats, Explanation};
use intendant_sampling::{Locality, Manager, SampleError, SamplingStats};
use intendant_task::{
    Announcement, Driver, Event, Loader, LoaderEvent, LoaderOp, LookAhead, Op, Partition, Prepared,
    Reduction, Task,
};
use intendant_techniques::Replicas;
use intendant_wire::{OpId, SnapshotPart};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a part of a snapshot.
const SNAPSHOT_BYTES: u32 = 64 << 10;

/// Events after which the observer is asked whether to go on: a few milliseconds of real time.
const EVENTS_PER_LOOK: u64 = 1 << 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// It will wake.
    No,
    Batch,
    Pull(OpId),
    Localize(OpId),
    Synchronize(OpId),
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
    /// How far the loader is ahead: what these batches are.
    ahead: LookAhead,
    /// Whether the loader has a batch for which there is no room.
    loader_waits: bool,
    waiting: Waiting,
    /// What the driver hears when the worker wakes.
    event: Option<Event<T::Batch>>,
    /// What the driver wanted when it was not yet time for it, or no room.
    postponed: Option<Op>,
    stream: Option<Stream>,
    clock: u32,
    /// It comes from a meeting.
    returns: bool,
}

/// A node, as its sampling manager sees it.
struct Place<'a, E> {
    cluster: &'a Cluster<E>,
    node: usize,
}

impl<E: Element> Locality for Place<'_, E> {
    fn is_local(&self, key: Key) -> bool {
        self.cluster.is_local(self.node, key)
    }

    fn now(&self) -> Tick {
        Tick(self.cluster.now_ns() / 1_000)
    }
}

pub(super) struct TaskRun<'a, T: Task> {
    cluster: Cluster<T::Element>,
    seats: Vec<Seat<T>>,
    config: &'a TaskConfig,
    /// One per node.
    sampling: Vec<Manager>,
    quiescence: Quiescence,
    meter: Meter,
    epochs: Vec<EpochOutcome>,
    observer: &'a mut dyn Observer,
}

impl<'a, T: Task> TaskRun<'a, T> {
    pub(super) fn new(
        task: &Arc<T>,
        config: &'a TaskConfig,
        cluster: Cluster<T::Element>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let workers = cluster.workers() as u32;
        let seat = |worker| {
            let partition = Partition { worker, workers, nodes: config.nodes as u32, threads: 1 };
            Seat {
                driver: Driver::new(Arc::clone(task), partition, config.schedule),
                loader: Loader::new(Arc::clone(task), partition, &config.schedule),
                batches: VecDeque::new(),
                ahead: LookAhead::default(),
                loader_waits: false,
                waiting: Waiting::No,
                event: Some(Event::Start),
                postponed: None,
                stream: None,
                clock: 0,
                returns: false,
            }
        };
        let keys_move = config.technique.policy().keys_move(config.nodes);
        let sampler = config.sampler.as_ref().unwrap_or(&task.model().sampler).settled(keys_move);
        let manager = |node| Manager::new(sampler.clone(), config.layout_seed, node);
        let sampling = (0..config.nodes as u16).map(manager).collect();
        Self {
            meter: Meter::new(cluster.workers()),
            cluster,
            seats: (0..workers).map(seat).collect(),
            config,
            sampling,
            quiescence: Quiescence::default(),
            epochs: Vec::new(),
            observer,
        }
    }

    pub(super) fn run(mut self) -> Result<TaskOutcome<T::Element>, TaskFailure> {
        self.meter.begin(&self.cluster);
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
                        self.meter.quiesced(&self.cluster, self.sampled());
                        self.all_go_on(Waiting::Quiesce, |_| Event::Done);
                    }
                }
                Happened::Part { worker, part } => self.part(worker, &part)?,
            }
            if self.cluster.events().is_multiple_of(EVENTS_PER_LOOK) && self.observer.stop() {
                return Err(TaskFailure::Stopped);
            }
        }
        if let Some(worker) = self.seats.iter().position(|seat| seat.waiting != Waiting::Over) {
            let who = format!("worker {worker} waits: {:?}", self.seats[worker].waiting);
            return Err(self.cluster.stuck(&who).into());
        }
        self.cluster.check_quiescent()?;
        let (messages, bytes) = self.cluster.traffic();
        let combined = self.seats[0].driver.combined().to_vec();
        let explanations = self.explanations();
        let mut accesses = AccessStats::default();
        (0..self.seats.len()).for_each(|worker| accesses.merge(&self.cluster.accesses(worker)));
        Ok(TaskOutcome {
            epochs: self.epochs,
            test: combined.get(self.config.schedule.epochs as usize).cloned(),
            combined,
            values: self.cluster.values(),
            accesses,
            management: self.cluster.management(),
            messages,
            bytes,
            virtual_ns: self.cluster.lively_ns(),
            events: self.cluster.events(),
            hash: self.cluster.hash(),
            explanations,
            reach: *self.cluster.reach(),
        })
    }

    /// Why the watched keys are where they are, by node.
    fn explanations(&self) -> Vec<Vec<(Key, Explanation)>> {
        let watched = &self.config.copies.watched;
        let of = |node| watched.iter().map(|key| (*key, self.cluster.explain(node, *key))).collect();
        (0..self.config.nodes).map(of).collect()
    }

    /// What sampling did on all nodes.
    fn sampled(&self) -> SamplingStats {
        let mut sum = SamplingStats::default();
        self.sampling.iter().for_each(|manager| sum.merge(&manager.stats()));
        sum
    }

    fn sample_error(worker: usize) -> impl Fn(SampleError) -> TaskFailure {
        move |source| TaskFailure::Sample { worker, source }
    }

    /// The loader goes on until it has a batch, which it delivers after the time that takes.
    fn load(&mut self, worker: usize, mut event: LoaderEvent) -> Result<(), TaskFailure> {
        loop {
            match self.seats[worker].loader.step(event) {
                LoaderOp::PrepareSample(request) => {
                    let place = Place { cluster: &self.cluster, node: worker / self.config.workers };
                    let handle = self.sampling[place.node].prepare(
                        request.distribution,
                        request.samples,
                        request.stream,
                        &place,
                    );
                    event = LoaderEvent::Prepared(handle.map_err(Self::sample_error(worker))?);
                }
                LoaderOp::Intend => {
                    let Announcement { keys, window } = self.seats[worker].loader.take_intent();
                    self.cluster.intend(worker, &keys, window, Caller::Loader)?;
                    event = LoaderEvent::Done;
                }
                LoaderOp::Deliver => {
                    self.cluster.wake_loader(worker, self.config.delays.machine.prepare_ns);
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
        } else if seat.batches.is_empty() || !seat.ahead.reaches(self.config.look_ahead) {
            let prepared = seat.loader.take();
            seat.ahead = seat.ahead.and(LookAhead::of(&prepared));
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

    /// All workers have met, and learn of it.
    fn all_go_on(&mut self, waiting: Waiting, event: impl Fn(usize) -> Event<T::Batch>) {
        let told_ns = self.cluster.meeting_ns();
        let latest = self.seats.iter().map(|seat| seat.clock).max().unwrap_or(0);
        let clocked = self.config.technique.policy().replicas.is_some_and(Replicas::is_clocked);
        for worker in 0..self.seats.len() {
            debug_assert_eq!(self.seats[worker].waiting, waiting, "all workers have met");
            if clocked {
                (self.seats[worker].clock, self.seats[worker].returns) = (latest, true);
            }
            if waiting != Waiting::Quiesce {
                // No worker reads a snapshot any more.
                self.cluster.resume(worker / self.config.workers);
            }
            self.go_on(worker, told_ns, event(worker));
        }
    }

    /// A worker comes to a meeting. Returns whether all are there.
    fn meet(&mut self, worker: usize, waiting: Waiting) -> bool {
        // No other worker waits for its updates meanwhile.
        self.cluster.rest(worker);
        self.seats[worker].waiting = waiting;
        self.seats.iter().all(|seat| seat.waiting == waiting)
    }

    /// A worker goes on with its program until it has to wait, or until it is not yet time for what it does
    /// next.
    fn step(&mut self, worker: usize) -> Result<(), TaskFailure> {
        let seat = &mut self.seats[worker];
        if std::mem::take(&mut seat.returns) {
            self.cluster.advance_clock(worker, Clock(seat.clock));
        }
        let mut op = match (seat.postponed.take(), seat.event.take()) {
            (Some(op), _) => op,
            (None, Some(event)) => self.program(worker, event)?,
            (None, None) => unreachable!("a worker wakes with an event or a postponed operation"),
        };
        while let Some(event) = self.execute(worker, op)? {
            op = self.program(worker, event)?;
        }
        Ok(())
    }

    fn program(&mut self, worker: usize, event: Event<T::Batch>) -> Result<Op, TaskFailure> {
        self.seats[worker].driver.step(event).map_err(|source| TaskFailure::Diverged { worker, source })
    }

    /// Postpones `op` until the worker is done with what it did so far. Returns whether it was not.
    fn too_early(&mut self, worker: usize, op: &Op) -> bool {
        let early = self.cluster.free_ns(worker) > self.cluster.now_ns();
        if early {
            self.seats[worker].postponed = Some(op.clone());
            self.cluster.wake(worker, 0);
        }
        early
    }

    /// Does what the program of a worker wants. `None` if the worker will wake, or is waiting.
    fn execute(&mut self, worker: usize, op: Op) -> Result<Option<Event<T::Batch>>, TaskFailure> {
        // What concerns no other worker happens at once; its time passes before the next operation that does.
        let own = matches!(op, Op::NextBatch | Op::Compute(_) | Op::AdvanceClock | Op::Flush);
        if !own && self.too_early(worker, &op) {
            return Ok(None);
        }
        let seat = &mut self.seats[worker];
        match op {
            Op::NextBatch => {
                let Some(prepared) = seat.batches.pop_front() else {
                    seat.waiting = Waiting::Batch;
                    return Ok(None);
                };
                seat.ahead = seat.ahead.without(LookAhead::of(&prepared));
                if std::mem::take(&mut seat.loader_waits) {
                    self.deliver(worker)?;
                }
                Ok(Some(Event::Batch(prepared)))
            }
            Op::PullSample => {
                let place = Place { cluster: &self.cluster, node: worker / self.config.workers };
                let (manager, mut near) = (&self.sampling[place.node], Vec::new());
                let drawn = seat
                    .driver
                    .draw(|handle, samples, keys| manager.draw(handle, samples, &place, keys, &mut near));
                drawn.map_err(Self::sample_error(worker))?;
                near.sort_unstable();
                near.dedup();
                // If there is no room to ask for them, they are read from where they are.
                if !near.is_empty() && self.cluster.admits(worker, &near) {
                    self.cluster.localize(worker, &near)?;
                }
                Ok(Some(Event::Done))
            }
            Op::Pull => {
                let samples = seat.driver.sampled_keys();
                let (keys, values) = seat.driver.pull_buffers();
                if !self.cluster.admits(worker, keys) {
                    (seat.waiting, seat.postponed) = (Waiting::Room, Some(Op::Pull));
                    return Ok(None);
                }
                self.cluster.count_sampled(worker, samples);
                let manager = &self.sampling[worker / self.config.workers];
                if manager.observes() {
                    manager.observe(&keys[..keys.len() - samples]);
                }
                match self.cluster.pull_into(worker, keys, values, Wait::Blocking)? {
                    None => Ok(Some(Event::Done)),
                    Some(op) => {
                        seat.waiting = Waiting::Pull(op);
                        Ok(None)
                    }
                }
            }
            Op::Compute(cost) => {
                let Delays { charge, machine, .. } = self.config.delays;
                let work_ps = charge.multiply_adds(cost.0).saturating_mul(machine.multiply_add_ps);
                self.cluster.work(worker, work_ps / 1_000);
                self.observer.batch(worker, &seat.driver.progress());
                Ok(Some(Event::Done))
            }
            Op::Push => {
                let (keys, values) = seat.driver.push_buffers();
                if !self.cluster.admits(worker, keys) {
                    (seat.waiting, seat.postponed) = (Waiting::Room, Some(Op::Push));
                    return Ok(None);
                }
                // The worker does not wait for it until the next flush.
                self.cluster.push(worker, keys, values)?;
                self.meter.step(&self.cluster, worker, &seat.driver.progress());
                Ok(Some(Event::Done))
            }
            Op::AdvanceClock => {
                seat.clock += 1;
                self.cluster.advance_clock(worker, Clock(seat.clock));
                Ok(Some(Event::Done))
            }
            Op::Synchronize => {
                if !self.cluster.admits_synchronize(worker) {
                    (seat.waiting, seat.postponed) = (Waiting::Room, Some(op));
                    return Ok(None);
                }
                match self.cluster.synchronize(worker)?.op {
                    Some(op) => {
                        seat.waiting = Waiting::Synchronize(op);
                        Ok(None)
                    }
                    None => Ok(Some(Event::Done)),
                }
            }
            Op::Flush if self.cluster.is_flushed(worker) => Ok(Some(Event::Done)),
            Op::Flush => {
                seat.waiting = Waiting::Flush;
                Ok(None)
            }
            Op::Barrier => {
                if self.meet(worker, Waiting::Barrier) {
                    if self.seats[0].driver.is_starting() {
                        // What moved so far was preparation.
                        self.meter.begin(&self.cluster);
                    }
                    self.all_go_on(Waiting::Barrier, |_| Event::Done);
                }
                Ok(None)
            }
            Op::Localize { wait } => {
                let keys = seat.driver.localize_keys();
                if !self.cluster.admits(worker, keys) {
                    (seat.waiting, seat.postponed) = (Waiting::Room, Some(op));
                    return Ok(None);
                }
                match self.cluster.localize(worker, keys)?.op {
                    Some(op) if wait => {
                        seat.waiting = Waiting::Localize(op);
                        Ok(None)
                    }
                    _ => Ok(Some(Event::Done)),
                }
            }
            Op::Quiesce => {
                if self.meet(worker, Waiting::Quiesce) {
                    self.quiescence.begin(&mut self.cluster);
                }
                Ok(None)
            }
            Op::Snapshot(range) => {
                seat.waiting = Waiting::Snapshot;
                seat.stream = Some(Stream::begin(&mut self.cluster, worker, range, SNAPSHOT_BYTES));
                Ok(None)
            }
            Op::Reduce => {
                if self.meet(worker, Waiting::Reduce) {
                    self.reduce();
                }
                Ok(None)
            }
            Op::Done => {
                self.cluster.retire(worker);
                seat.waiting = Waiting::Over;
                Ok(None)
            }
        }
    }

    /// All workers have come to combine their sums: an epoch has ended, or the test.
    fn reduce(&mut self) {
        let mut sum = Reduction::default();
        self.seats.iter().for_each(|seat| sum.merge(seat.driver.reduction()));
        if self.epochs.len() < self.config.schedule.epochs as usize {
            let epoch = self.meter.outcome(sum.clone());
            self.observer.epoch(self.epochs.len() + 1, &epoch);
            self.epochs.push(epoch);
        }
        self.all_go_on(Waiting::Reduce, |_| Event::Reduced(sum.clone()));
        self.meter.begin(&self.cluster);
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
            Waiting::Localize(waiting) | Waiting::Synchronize(waiting) if waiting == op => {
                self.go_on(worker, 0, Event::Done)
            }
            Waiting::Flush if self.cluster.is_flushed(worker) => self.go_on(worker, 0, Event::Done),
            Waiting::Pull(_)
            | Waiting::Localize(_)
            | Waiting::Synchronize(_)
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
