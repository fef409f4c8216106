//! Interpreter of task programs: executes the operations of each worker's driver and loader on the simulated
//! cluster, and wakes them when an operation is done.

use super::cuts::{Cuts, Origin, Stage};
use super::disk::violation;
use super::meter::Meter;
use super::rows::{ClusterRows, Copies};
use super::{EpochOutcome, Observer, TaskConfig, TaskFailure, TaskOutcome};
use crate::bound::Bounds;
use crate::cluster::{Caller, Cluster, Happened, Wait};
use crate::delays::Delays;
use crate::meeting::{Quiescence, Stream};
use intendant_core::{Clock, Element, Key, NodeId, Tick, copy_from_bytes};
use intendant_engine::{AccessStats, Explanation};
use intendant_sampling::{Locality, Manager, SampleError, SamplingStats};
use intendant_task::{
    Announcement, Cost, Driver, Event, Loader, LoaderEvent, LoaderOp, LookAhead, Op, Partition, Prepared,
    Reduction, Task,
};
use intendant_techniques::Replicas;
use intendant_wire::{OpId, SnapshotPart};
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
    /// How far it is at a meeting.
    pub(super) stage: Option<Stage>,
    /// Of the batch that is trained in place.
    copies: Copies<T::Element>,
    pub(super) clock: u32,
    /// The worker leaves a meeting, and advances its clock when it wakes.
    pub(super) leaves_meeting: bool,
}

/// Which keys are local to a node, for its sampling manager.
struct NodeLocality<'a, E> {
    cluster: &'a Cluster<E>,
    node: usize,
}

impl<E: Element> Locality for NodeLocality<'_, E> {
    fn is_local(&self, key: Key) -> bool {
        self.cluster.is_local(self.node, key)
    }

    fn part(&self, key: Key) -> u32 {
        self.cluster.part(self.node, key)
    }

    fn find_parts(&self, keys: &[Key], parts: &mut [u32]) {
        self.cluster.find_parts(self.node, keys, parts);
    }

    fn nodes(&self) -> u32 {
        self.cluster.node_count() as u32
    }

    fn now(&self) -> Tick {
        Tick(self.cluster.now_ns() / 1_000)
    }
}

pub(super) struct TaskRun<'a, T: Task> {
    pub(super) cluster: Cluster<T::Element>,
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

impl<'a, T: Task> TaskRun<'a, T> {
    pub(super) fn new(
        task: &Arc<T>,
        config: &'a TaskConfig,
        cluster: Cluster<T::Element>,
        origin: Option<&Origin<T::Element>>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let start = origin.map(|origin| origin.start().clone()).unwrap_or_default();
        let newest = origin.map(|origin| origin.cut.number);
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
                stage: None,
                copies: Copies::default(),
                clock: 0,
                leaves_meeting: false,
            }
        };
        let movement = config.technique.policy().movement(config.nodes);
        let sampler = config.sampler.as_ref().unwrap_or(&task.model().sampler).settled(movement);
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
        self.meter.begin(&self.cluster);
        for worker in 0..self.workers.len() {
            self.cluster.wake(worker, 0);
            self.load(worker, LoaderEvent::Start)?;
        }
        while let Some(happened) = self.cluster.next()? {
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
                    if !self.quiescence.reported(&mut self.cluster, report)? {
                    } else if self.workers[0].waiting == Waiting::Rest {
                        self.copy();
                    } else {
                        self.meter.quiesced(&self.cluster, self.sampled());
                        self.resume_all(Waiting::Quiesce, |_| Event::Done);
                    }
                }
                Happened::Part { worker, part } => self.part(worker, &part)?,
            }
            self.live()?;
            if self.cluster.events().is_multiple_of(EVENTS_PER_STOP_CHECK) && self.observer.stop() {
                return Err(TaskFailure::Stopped);
            }
        }
        if let Some(worker) = self.workers.iter().position(|state| state.waiting != Waiting::Over) {
            let who = format!("worker {worker} waits: {:?}", self.workers[worker].waiting);
            return Err(self.cluster.stuck(&who).into());
        }
        self.cluster.check_quiescent()?;
        let (messages, bytes) = self.cluster.traffic();
        let combined = self.workers[0].driver.combined().to_vec();
        let explanations = self.explanations();
        let mut accesses = AccessStats::default();
        (0..self.workers.len()).for_each(|worker| accesses.merge(&self.cluster.accesses(worker)));
        Ok(TaskOutcome {
            epochs: self.epochs,
            test: self.test,
            combined,
            values: self.cluster.values(),
            accesses,
            management: self.cluster.management(),
            messages,
            bytes,
            virtual_ns: self.cluster.last_activity_ns(),
            events: self.cluster.events(),
            hash: self.cluster.hash(),
            explanations,
            reach: *self.cluster.reach(),
        })
    }

    /// Ends what has been written by now.
    fn write_on(&mut self) -> Result<(), TaskFailure> {
        let Some(cuts) = &mut self.cuts else { return Ok(()) };
        let now_ns = self.cluster.now_ns();
        let written = cuts.disk.advance(|_| now_ns, self.observer);
        self.dies = written.map_err(violation(&self.cluster))?;
        self.live()
    }

    /// Ends the run if a node dies now.
    fn live(&mut self) -> Result<(), TaskFailure> {
        let at_ns = self.cluster.now_ns();
        let Some(node) = self.dies.or_else(|| self.config.faults.crashed(at_ns)) else { return Ok(()) };
        if let Some(cuts) = &mut self.cuts {
            cuts.disk.crash(node, at_ns).map_err(violation(&self.cluster))?;
        }
        Err(TaskFailure::Crashed { node, at_ns })
    }

    /// Per node, why the watched keys are where they are.
    fn explanations(&self) -> Vec<Vec<(Key, Explanation)>> {
        let watched = &self.config.replication.watched;
        let of = |node| watched.iter().map(|key| (*key, self.cluster.explain(node, *key))).collect();
        (0..self.config.nodes).map(of).collect()
    }

    /// Sampling counters of all nodes.
    fn sampled(&self) -> SamplingStats {
        let mut sum = SamplingStats::default();
        self.sampling.iter().for_each(|manager| sum.merge(&manager.stats()));
        sum
    }

    fn sample_error(worker: usize) -> impl Fn(SampleError) -> TaskFailure {
        move |source| TaskFailure::Sample { worker, source }
    }

    /// Runs the loader until it has prepared a batch. The batch is delivered after the preparation time.
    fn load(&mut self, worker: usize, mut event: LoaderEvent) -> Result<(), TaskFailure> {
        loop {
            match self.workers[worker].loader.step(event) {
                LoaderOp::PrepareSample(request) => {
                    let locality =
                        NodeLocality { cluster: &self.cluster, node: worker / self.config.workers };
                    let handle = self.sampling[locality.node].prepare(
                        request.distribution,
                        request.samples,
                        request.stream,
                        &locality,
                    );
                    event = LoaderEvent::Prepared(handle.map_err(Self::sample_error(worker))?);
                }
                LoaderOp::Intend => {
                    let Announcement { keys, window } = self.workers[worker].loader.next_intent();
                    self.cluster.intend(worker, keys, window.clone(), Caller::Loader)?;
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

    /// Passes the loader's batch to the worker, or blocks the loader while the queue is full.
    fn deliver(&mut self, worker: usize) -> Result<(), TaskFailure> {
        let state = &mut self.workers[worker];
        if state.waiting == Waiting::Batch {
            let prepared = state.loader.take();
            self.resume_worker(worker, 0, Event::Batch(prepared));
        } else if state.batches.is_empty() || !state.ahead.reaches(self.config.look_ahead) {
            let prepared = state.loader.take();
            state.ahead = state.ahead.and(LookAhead::of(&prepared));
            state.batches.push_back(prepared);
        } else {
            state.loader_waits = true;
            return Ok(());
        }
        self.load(worker, LoaderEvent::Done)
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
        let clocked = self.config.technique.policy().replicas.is_some_and(Replicas::is_clocked);
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

    /// Runs a worker's program until it waits or its next operation lies in the future.
    fn step(&mut self, worker: usize) -> Result<(), TaskFailure> {
        self.leave_meeting(worker);
        let state = &mut self.workers[worker];
        if let Some(stage) = state.stage {
            return self.meet_on(worker, stage);
        }
        let mut op = match (state.postponed.take(), state.event.take()) {
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
        self.workers[worker].driver.step(event).map_err(|source| TaskFailure::Diverged { worker, source })
    }

    /// Postpones `op` if the worker is still busy with earlier work. Returns whether it did.
    fn too_early(&mut self, worker: usize, op: &Op) -> bool {
        let early = self.cluster.free_ns(worker) > self.cluster.now_ns();
        if early {
            self.workers[worker].postponed = Some(op.clone());
            self.cluster.wake(worker, 0);
        }
        early
    }

    /// Executes an operation. Returns the event for the program, or `None` if the worker waits or will wake
    /// later.
    fn execute(&mut self, worker: usize, op: Op) -> Result<Option<Event<T::Batch>>, TaskFailure> {
        // Operations that no other worker observes happen at once; their time passes before the next
        // operation that others observe.
        let own = matches!(op, Op::NextBatch | Op::Compute(_) | Op::AdvanceClock | Op::Flush);
        if !own && self.too_early(worker, &op) {
            return Ok(None);
        }
        let state = &mut self.workers[worker];
        match op {
            Op::NextBatch => {
                let Some(prepared) = state.batches.pop_front() else {
                    state.waiting = Waiting::Batch;
                    return Ok(None);
                };
                state.ahead = state.ahead.without(LookAhead::of(&prepared));
                if std::mem::take(&mut state.loader_waits) {
                    self.deliver(worker)?;
                }
                Ok(Some(Event::Batch(prepared)))
            }
            Op::PullSample => {
                let locality = NodeLocality { cluster: &self.cluster, node: worker / self.config.workers };
                let (manager, mut near) = (&self.sampling[locality.node], Vec::new());
                let drawn = state
                    .driver
                    .draw(|handle, samples, keys| manager.draw(handle, samples, &locality, keys, &mut near));
                drawn.map_err(Self::sample_error(worker))?;
                near.sort_unstable();
                near.dedup();
                // If outstanding bytes do not admit the localize call, the keys are read where they are.
                if !near.is_empty() && self.cluster.admits(worker, &near) {
                    self.cluster.localize(worker, &near)?;
                }
                Ok(Some(Event::Done))
            }
            Op::Pull => {
                let samples = state.driver.sampled_keys();
                let (keys, values) = state.driver.pull_buffers();
                if !self.cluster.admits(worker, keys) {
                    (state.waiting, state.postponed) = (Waiting::Room, Some(Op::Pull));
                    return Ok(None);
                }
                self.cluster.count_sampled(worker, samples);
                let manager = &self.sampling[worker / self.config.workers];
                if manager.observes() {
                    manager.observe(&keys[..keys.len() - samples]);
                }
                match self.cluster.pull_into(worker, keys, values, Wait::Blocking)? {
                    None => {
                        self.bounds.read(worker, keys, self.cluster.now_ns());
                        Ok(Some(Event::Done))
                    }
                    Some(op) => {
                        state.waiting = Waiting::Pull(op);
                        Ok(None)
                    }
                }
            }
            Op::Train => self.train(worker),
            Op::Compute(cost) => {
                self.computed(worker, cost);
                Ok(Some(Event::Done))
            }
            Op::Push => {
                let (keys, values) = state.driver.push_buffers();
                if !self.cluster.admits(worker, keys) {
                    (state.waiting, state.postponed) = (Waiting::Room, Some(Op::Push));
                    return Ok(None);
                }
                self.bounds.write(worker, keys, self.cluster.now_ns());
                // The push stays outstanding until the next flush.
                self.cluster.push(worker, keys, values)?;
                if let Some(cuts) = &mut self.cuts {
                    cuts.batches[worker] += 1;
                }
                self.meter.step(&self.cluster, worker, &state.driver.progress());
                Ok(Some(Event::Done))
            }
            Op::AdvanceClock => {
                state.clock += 1;
                self.cluster.advance_clock(worker, Clock(state.clock));
                Ok(Some(Event::Done))
            }
            Op::Synchronize => {
                if !self.cluster.admits_synchronize(worker) {
                    (state.waiting, state.postponed) = (Waiting::Room, Some(op));
                    return Ok(None);
                }
                match self.cluster.synchronize(worker)?.op {
                    Some(op) => {
                        state.waiting = Waiting::Synchronize(op);
                        Ok(None)
                    }
                    None => Ok(Some(Event::Done)),
                }
            }
            Op::Flush if self.cluster.is_flushed(worker) => Ok(Some(Event::Done)),
            Op::Flush => {
                state.waiting = Waiting::Flush;
                Ok(None)
            }
            Op::Barrier => {
                if self.meet(worker, Waiting::Barrier) {
                    if self.workers[0].driver.is_starting() {
                        // Relocations before training starts belong to preparation, not to the epoch.
                        self.meter.begin(&self.cluster);
                    }
                    self.resume_all(Waiting::Barrier, |_| Event::Done);
                }
                Ok(None)
            }
            Op::Meet if self.cuts.is_some() => {
                state.stage = Some(Stage::Vote);
                self.meet_on(worker, Stage::Vote)?;
                Ok(None)
            }
            Op::Meet => Ok(Some(Event::Done)),
            Op::Localize { wait } => {
                let keys = state.driver.localize_keys();
                if !self.cluster.admits(worker, keys) {
                    (state.waiting, state.postponed) = (Waiting::Room, Some(op));
                    return Ok(None);
                }
                match self.cluster.localize(worker, keys)?.op {
                    Some(op) if wait => {
                        state.waiting = Waiting::Localize(op);
                        Ok(None)
                    }
                    _ => Ok(Some(Event::Done)),
                }
            }
            Op::Quiesce => {
                if self.meet(worker, Waiting::Quiesce) {
                    self.quiescence.begin_flushed(&mut self.cluster);
                }
                Ok(None)
            }
            Op::Snapshot(range) => {
                state.waiting = Waiting::Snapshot;
                state.stream = Some(Stream::begin(&mut self.cluster, worker, range, SNAPSHOT_BYTES));
                Ok(None)
            }
            Op::Reduce => {
                if self.meet(worker, Waiting::Reduce) {
                    self.reduce();
                }
                Ok(None)
            }
            Op::Done => {
                let stage = if self.cuts.is_some() { Stage::LastVote } else { Stage::Leave };
                state.stage = Some(stage);
                self.meet_on(worker, stage)?;
                Ok(None)
            }
        }
    }

    /// Charges a worker for the arithmetic of a batch.
    fn computed(&mut self, worker: usize, cost: Cost) {
        let Delays { charge, machine, .. } = self.config.delays;
        let work_ps = charge.multiply_adds(cost.0).saturating_mul(machine.multiply_add_ps);
        self.cluster.work(worker, work_ps / 1_000);
        self.observer.batch(worker, &self.workers[worker].driver.progress());
    }

    /// Trains a batch in place: pulls copies of rows that are not here, until each row is here or has a copy;
    /// then trains, at one point in time; then pushes what was done to the copies.
    fn train(&mut self, worker: usize) -> Result<Option<Event<T::Batch>>, TaskFailure> {
        let state = &mut self.workers[worker];
        let keys = state.driver.train_keys().to_vec();
        if state.copies.begin(keys.len()) {
            let samples = state.driver.sampled_keys();
            self.cluster.count_sampled(worker, samples);
            let manager = &self.sampling[worker / self.config.workers];
            if manager.observes() {
                manager.observe(&keys[..keys.len() - samples]);
            }
        }
        while !state.copies.is_trained() {
            let absent_now = self.cluster.find_absent(worker, &keys)?;
            let absent = state.copies.without(&absent_now);
            if absent.is_empty() {
                state.copies.lend_others(&absent_now, self.cluster.layout());
                let (cluster, copies) = (&self.cluster, &mut state.copies);
                let trained = state.driver.train(|keys, act| {
                    act(&mut ClusterRows::new(cluster, worker, keys, &mut *copies));
                    Ok::<(), TaskFailure>(())
                });
                let (lent, pulled) = copies.trained();
                let elements = self.cluster.elements(&keys) - copies.update().1.len();
                self.cluster.updated(worker, lent, elements, pulled);
                self.computed(worker, trained?);
                let now_ns = self.cluster.now_ns();
                self.bounds.read(worker, &keys, now_ns);
                self.bounds.write(worker, &keys, now_ns);
                break;
            }
            // The loop comes here again for the others.
            let absent = &absent[..absent.len().min(self.config.operation_keys())];
            let fetch: Vec<Key> = absent.iter().map(|position| keys[*position as usize]).collect();
            if !self.cluster.admits(worker, &fetch) {
                (state.waiting, state.postponed) = (Waiting::Room, Some(Op::Train));
                return Ok(None);
            }
            let mut values = vec![T::Element::ZERO; self.cluster.elements(&fetch)];
            let op = self.cluster.pull_into(worker, &fetch, &mut values, Wait::Blocking)?;
            state.copies.pulled(absent, &fetch, &values, self.cluster.layout());
            if let Some(op) = op {
                state.waiting = Waiting::Copies(op);
                return Ok(None);
            }
        }
        let state = &mut self.workers[worker];
        let (keys, update) = state.copies.update();
        if !keys.is_empty() {
            if !self.cluster.admits(worker, keys) {
                (state.waiting, state.postponed) = (Waiting::Room, Some(Op::Train));
                return Ok(None);
            }
            // Pushes stay outstanding until the next flush.
            let mut rest = update;
            for keys in keys.chunks(self.config.operation_keys()) {
                let (values, after) = rest.split_at(self.cluster.elements(keys));
                self.cluster.push(worker, keys, values)?;
                rest = after;
            }
        }
        state.copies.end();
        if let Some(cuts) = &mut self.cuts {
            cuts.batches[worker] += 1;
        }
        self.meter.step(&self.cluster, worker, &state.driver.progress());
        Ok(Some(Event::Done))
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
            self.epochs.push(epoch);
        }
        if let Some(cuts) = self.cuts.as_mut().filter(|_| !is_test) {
            cuts.between = Some((sum, is_end));
            self.go_on(Stage::Vote, 0);
            return;
        }
        self.resume_all(Waiting::Reduce, |_| Event::Reduced(sum.clone()));
        self.meter.begin(&self.cluster);
    }

    /// Continues a worker that waits for the operation `op`, which is done.
    fn answered(&mut self, worker: usize, op: OpId) -> Result<(), TaskFailure> {
        let state = &mut self.workers[worker];
        match state.waiting {
            Waiting::Pull(waiting) if waiting == op => {
                let pulled = self.cluster.take_pulled(worker, op).unwrap_or_default();
                let (keys, values) = state.driver.pull_buffers();
                values.copy_from_slice(&pulled);
                // The read ends now.
                self.bounds.read(worker, keys, self.cluster.now_ns());
                self.resume_worker(worker, 0, Event::Done);
            }
            Waiting::Copies(waiting) if waiting == op => {
                let pulled = self.cluster.take_pulled(worker, op).unwrap_or_default();
                state.copies.arrived(&pulled);
                (state.waiting, state.postponed) = (Waiting::No, Some(Op::Train));
                self.cluster.wake(worker, 0);
            }
            Waiting::Room => {
                state.waiting = Waiting::No;
                self.cluster.wake(worker, 0);
            }
            Waiting::Localize(waiting) | Waiting::Synchronize(waiting) if waiting == op => {
                self.resume_worker(worker, 0, Event::Done)
            }
            Waiting::Flush if self.cluster.is_flushed(worker) => self.resume_worker(worker, 0, Event::Done),
            Waiting::CutFlush if self.cluster.is_flushed(worker) => {
                state.waiting = Waiting::No;
                self.cluster.wake(worker, 0);
            }
            Waiting::CutFlush
            | Waiting::Votes
            | Waiting::Rest
            | Waiting::Pull(_)
            | Waiting::Copies(_)
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

    /// A worker receives a part of the snapshot that it reads.
    fn part(&mut self, worker: usize, part: &SnapshotPart) -> Result<(), TaskFailure> {
        self.snapshot.resize(self.cluster.elements(&part.keys), T::Element::ZERO);
        copy_from_bytes(&mut self.snapshot, &part.values);
        let state = &mut self.workers[worker];
        let stream = state.stream.as_mut().expect("parts come while a stream is read");
        let is_last = stream.part(&mut self.cluster, part)?;
        if is_last {
            state.stream = None;
        }
        if state.waiting == Waiting::Rest {
            return self.copied(worker, &part.keys, is_last);
        }
        state.driver.snapshot_part(&part.keys, &self.snapshot);
        if is_last {
            self.resume_worker(worker, 0, Event::Done);
        }
        Ok(())
    }
}
