//! The training half of the interpreter: the operations of workers' programs, and what ends those that take
//! time.

use super::loading::NodeLocality;
use super::{SNAPSHOT_BYTES, TaskRun, Waiting};
use crate::cluster::{Probe, Wait};
use crate::delays::Delays;
use crate::meeting::Stream;
use crate::shell::TaskFailure;
use crate::shell::cuts::CutTask;
use crate::shell::rows::ClusterRows;
use intendant_core::{Clock, Element, Key, copy_from_bytes};
use intendant_task::{Cost, Event, LookAhead, Op, Task};
use intendant_wire::{OpId, SnapshotPart};

impl<T: Task, P: Probe<T::Element>> TaskRun<'_, T, P> {
    /// Runs a worker's program until it waits or its next operation lies in the future.
    pub(super) fn step(&mut self, worker: usize) -> Result<(), TaskFailure> {
        self.leave_meeting(worker);
        if let Some(task) = self.workers[worker].cut.take()
            && !self.cut_on(worker, task)?
        {
            return Ok(());
        }
        let state = &mut self.workers[worker];
        let mut op = match (state.postponed.take(), state.event.take()) {
            (Some(op), _) => op,
            (None, Some(event)) => self.program(worker, event)?,
            // It has ended, and its last cut is a checkpoint.
            (None, None) if self.cuts.as_ref().is_some_and(|cuts| cuts.has_left(worker)) => {
                self.retire(worker);
                return Ok(());
            }
            (None, None) => unreachable!("a worker wakes with an event or a postponed operation"),
        };
        while let Some(event) = self.execute(worker, op)? {
            op = self.program(worker, event)?;
        }
        Ok(())
    }

    fn retire(&mut self, worker: usize) {
        self.cluster.retire(worker);
        self.workers[worker].waiting = Waiting::Over;
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
                let locality = NodeLocality { cluster: self.cluster, node: worker / self.config.workers };
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
                self.meter.step(self.cluster, worker, &state.driver.progress());
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
            Op::Flush if self.cluster.local(worker).is_flushed() => Ok(Some(Event::Done)),
            Op::Flush => {
                state.waiting = Waiting::Flush;
                Ok(None)
            }
            Op::Barrier => {
                if self.meet(worker, Waiting::Barrier) {
                    if self.workers[0].driver.is_starting() {
                        // Relocations before training starts belong to preparation, not to the epoch.
                        self.meter.begin(self.cluster);
                    }
                    self.resume_all(Waiting::Barrier, |_| Event::Done);
                }
                Ok(None)
            }
            Op::Meet if self.cuts.is_some() => {
                self.cut_on(worker, CutTask::Meet)?;
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
                    self.quiescence.begin_flushed(self.cluster);
                }
                Ok(None)
            }
            Op::Snapshot(range) => {
                state.waiting = Waiting::Snapshot;
                state.stream = Some(Stream::begin(self.cluster, worker, range, SNAPSHOT_BYTES));
                Ok(None)
            }
            Op::Reduce => {
                if self.meet(worker, Waiting::Reduce) {
                    self.reduce();
                }
                Ok(None)
            }
            Op::Done => {
                // If the workers have not met for the last cut, they do now.
                if self.cut_on(worker, CutTask::End)? {
                    self.retire(worker);
                }
                Ok(None)
            }
        }
    }

    /// Charges a worker for the arithmetic of a batch.
    fn computed(&mut self, worker: usize, cost: Cost) {
        let Delays { charge, machine, .. } = self.config.delays;
        let work_ps = charge.multiply_adds(cost.0).saturating_mul(machine.multiply_add_ps);
        let progress = self.workers[worker].driver.progress();
        let step = [worker as u64, progress.epoch.into(), progress.batches];
        let longer = self.config.unevenness.longer(self.config.seed, &step);
        self.cluster.work(worker, (work_ps as f64 * longer) as u64 / 1_000);
        self.observer.batch(worker, &self.workers[worker].driver.progress());
    }

    /// Trains a batch in place: pulls copies of rows that are not here, until each row is here or has a copy;
    /// then trains, at one point in time; then pushes what was done to the copies.
    fn train(&mut self, worker: usize) -> Result<Option<Event<T::Batch>>, TaskFailure> {
        let state = &mut self.workers[worker];
        let keys = state.driver.train_keys();
        if state.copies.begin(keys.len()) {
            let samples = state.driver.sampled_keys();
            self.cluster.count_sampled(worker, samples);
            let manager = &self.sampling[worker / self.config.workers];
            if manager.observes() {
                manager.observe(&keys[..keys.len() - samples]);
            }
        }
        while !state.copies.is_trained() {
            let keys = state.driver.train_keys();
            let absent_now = self.cluster.find_absent(worker, keys)?;
            let absent = state.copies.without(&absent_now);
            if absent.is_empty() {
                state.copies.lend_others(&absent_now, self.cluster.layout());
                let (cluster, copies) = (&self.cluster, &mut state.copies);
                let trained = state.driver.train(|keys, act| {
                    act(&mut ClusterRows::new(cluster, worker, keys, &mut *copies));
                    Ok::<(), TaskFailure>(())
                });
                let (lent, pulled) = copies.trained();
                let elements = self.cluster.elements(state.driver.train_keys()) - copies.update().1.len();
                self.cluster.updated(worker, lent, elements, pulled);
                self.computed(worker, trained?);
                let (keys, now_ns) = (self.workers[worker].driver.train_keys(), self.cluster.now_ns());
                self.bounds.read(worker, keys, now_ns);
                self.bounds.write(worker, keys, now_ns);
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
        self.meter.step(self.cluster, worker, &state.driver.progress());
        Ok(Some(Event::Done))
    }

    /// Continues a worker that waits for the operation `op`, which is done.
    pub(super) fn answered(&mut self, worker: usize, op: OpId) -> Result<(), TaskFailure> {
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
            Waiting::Flush if self.cluster.local(worker).is_flushed() => {
                self.resume_worker(worker, 0, Event::Done)
            }
            Waiting::CutFlush if self.cluster.local(worker).is_flushed() => {
                state.waiting = Waiting::No;
                self.cluster.wake(worker, 0);
            }
            Waiting::CutFlush
            | Waiting::Votes
            | Waiting::Rest
            | Waiting::Leave
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
    pub(super) fn part(&mut self, worker: usize, part: &SnapshotPart) -> Result<(), TaskFailure> {
        let layout = self.cluster.layout();
        let elements = part.keys.iter().map(|key| layout.len(*key)).sum();
        self.snapshot.resize(elements, T::Element::ZERO);
        copy_from_bytes(&mut self.snapshot, &part.values);
        let state = &mut self.workers[worker];
        let stream = state.stream.as_mut().expect("parts come while a stream is read");
        let is_last = stream.part(self.cluster, part)?;
        if is_last {
            state.stream = None;
        }
        if state.waiting == Waiting::Rest {
            return self.copied(worker, &part.keys, is_last);
        }
        if !part.keys.is_empty() {
            state.driver.snapshot_part(&part.keys, &self.snapshot);
        }
        if is_last {
            self.resume_worker(worker, 0, Event::Done);
        }
        Ok(())
    }
}
