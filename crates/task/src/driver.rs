//! The training loop of one worker as a program without I/O.

use crate::course::{Course, Rest};
use crate::{
    Cost, Diverged, Evaluation, Event, ModelRange, Op, Partition, Prepared, Progress, Pulled, Reduction,
    Rows, Schedule, Split, Start, StepReport, Subepoch, Task, Update, kernel,
};
use intendant_core::{Element, Key};
use intendant_sampling::Handle;
use pulp::Arch;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

/// The names of the sums over batches.
const TRAINED: [&str; 2] = ["loss", "examples"];

/// The number of elements that a pull returns for a key.
const VISIBLE: fn(&ModelRange) -> usize = |range| range.len;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Start,
    Residents,
    StartQuiesce,
    StartBarrier,
    Block,
    Next,
    Near,
    Sample,
    Pull,
    Compute,
    Push,
    Train,
    PushFlush,
    Clock,
    Synchronize,
    Meet,
    SubepochFlush,
    SubepochBarrier,
    SubepochMeet,
    EpochFlush,
    EpochQuiesce,
    Evaluate(Split),
    EvaluateStream(Split),
    EvaluateEnd(Split),
    Reduce,
    TestReduce,
    Done,
}

/// The training loop of one worker. [`Driver::step`] takes an event and returns the next operation.
pub struct Driver<T: Task> {
    task: Arc<T>,
    partition: Partition,
    schedule: Schedule,
    state: State,
    progress: Progress,
    course: Course<T>,
    /// Indices of the current subepoch and of those that follow it. `received` and `batches` count the
    /// batches of the current one that were received, and all that this worker trains in it.
    subepochs: Range<u32>,
    received: u64,
    /// Batches of the current subepoch that were trained.
    trained: u64,
    batches: u64,
    /// The workers meet when each has trained this many batches of a subepoch, if each has more than that.
    meeting: Option<u64>,
    /// The batches of the worker with the fewest in this subepoch; only with [`Schedule::meets`].
    fewest: u64,
    /// Steps of this epoch: `steps` are done, `steps_end` is their number at the end of the current subepoch.
    /// Only with [`Schedule::synchronize`]. In a subepoch, every worker takes as many steps as the worker
    /// with the most batches, so that all synchronise equally often. A worker that has run out of batches
    /// takes empty steps.
    steps: u64,
    steps_end: u64,
    scratch: T::Scratch,
    arch: Arch,
    /// Batches that were received and wait for their turn.
    queue: VecDeque<Prepared<T::Batch>>,
    current: Option<Prepared<T::Batch>>,
    /// The handles from which the current batch, and the batches that share them, draw samples.
    handles: Vec<Handle>,
    /// Keys to be localized.
    near: Vec<Key>,
    /// Keys of the current batch: direct ones, then sampled ones.
    keys: Vec<Key>,
    direct_keys: usize,
    /// Number of elements in the values of the direct keys, and in their updates.
    direct_elements: usize,
    direct_operands: usize,
    values: Vec<T::Element>,
    update: Vec<T::Element>,
    /// The keys whose update is pushed, if some are left out.
    updated: Option<Vec<Key>>,
    /// The error of the last batch that was trained in place.
    diverged: Option<Diverged>,
    evaluation: Option<Box<dyn Evaluation<T::Element>>>,
    reduction: Reduction,
    /// The sums of losses and examples, if batches were trained since the sums were last moved to
    /// `reduction`, where they belong. A search by name would take as long as the arithmetic of a small
    /// batch.
    trained_sums: Option<[f64; 2]>,
    combined: Vec<Reduction>,
}

impl<T: Task> Driver<T> {
    /// A driver for one worker.
    pub fn new(task: Arc<T>, partition: Partition, schedule: Schedule) -> Self {
        Self::resume(task, partition, schedule, &Start::default(), Reduction::default())
    }

    /// A driver for one worker of a run that begins at `start`. `sums` are the sums so far of the epoch that
    /// continues there. One of the workers gets them; the others begin with zero.
    pub fn resume(
        task: Arc<T>,
        partition: Partition,
        schedule: Schedule,
        start: &Start,
        sums: Reduction,
    ) -> Self {
        let mut scratch = task.scratch();
        for combined in &start.epochs {
            task.epoch_ended(&mut scratch, combined);
        }
        let progress = Progress { epoch: start.epoch(), ..Progress::default() };
        Self {
            course: Course::new(Arc::clone(&task), partition, start.rest.clone()),
            task,
            partition,
            schedule,
            state: State::Start,
            progress,
            subepochs: 0..0,
            received: 0,
            trained: 0,
            batches: 0,
            meeting: None,
            fewest: 0,
            steps: 0,
            steps_end: 0,
            scratch,
            arch: Arch::new(),
            queue: VecDeque::new(),
            current: None,
            handles: Vec::new(),
            near: Vec::new(),
            keys: Vec::new(),
            direct_keys: 0,
            direct_elements: 0,
            direct_operands: 0,
            values: Vec::new(),
            update: Vec::new(),
            updated: None,
            diverged: None,
            evaluation: None,
            reduction: sums,
            trained_sums: None,
            combined: start.epochs.clone(),
        }
    }

    /// Asks for [`Op::Meet`] after `batches` batches of a subepoch, of this one or a later one; `None` asks
    /// for no meeting within subepochs. All workers must make the same call at the same place. There is no
    /// meeting if a worker has no more batches than that, if the epoch has several subepochs (workers meet
    /// between them anyway), or if the task does not rest within epochs.
    pub fn meet_after(&mut self, batches: Option<u64>) {
        self.meeting = batches;
    }

    /// Batches of the current subepoch that this worker has trained; for [`Op::Meet`].
    pub fn trained(&self) -> u64 {
        self.trained
    }

    /// What is left of the epoch when all workers have trained as many batches as this one; for [`Op::Meet`].
    pub fn rest(&self) -> Rest {
        let subepoch = Subepoch { epoch: self.progress.epoch, index: self.subepochs.start };
        self.course.rest_after(subepoch, self.trained)
    }

    /// The progress of this worker.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Whether the driver has not yet asked for a batch: so far it has only prepared.
    pub fn is_starting(&self) -> bool {
        matches!(self.state, State::Start | State::Residents | State::StartQuiesce | State::StartBarrier)
    }

    /// The batch that is trained next, if the driver has it.
    pub fn upcoming(&self) -> Option<&Prepared<T::Batch>> {
        self.queue.front()
    }

    /// The keys to localize, for [`Op::Localize`].
    pub fn localize_keys(&self) -> &[Key] {
        &self.near
    }

    /// The keys to pull and where their values go, concatenated.
    pub fn pull_buffers(&mut self) -> (&[Key], &mut [T::Element]) {
        (&self.keys, &mut self.values)
    }

    /// The keys to push and what to add to their values, concatenated.
    pub fn push_buffers(&self) -> (&[Key], &[T::Element]) {
        (self.updated.as_ref().unwrap_or(&self.keys), &self.update)
    }

    /// How many of [`Driver::pull_buffers`]' keys, at their end, are samples.
    pub fn sampled_keys(&self) -> usize {
        if self.current.is_some() { self.keys.len() - self.direct_keys } else { 0 }
    }

    /// The keys of the rows to train, for [`Op::Train`]: direct ones, then sampled ones.
    pub fn train_keys(&self) -> &[Key] {
        &self.keys
    }

    /// Trains the current batch in place. `lend` gets the keys of [`Driver::train_keys`] and a function,
    /// which it calls once with their rows. That function returns whether the loss is finite. If it is not,
    /// the next step returns an error, and `lend` need not care about the content of the rows. Returns the
    /// cost of the arithmetic.
    ///
    /// # Errors
    /// What `lend` returns.
    ///
    /// # Panics
    /// If the last operation was not [`Op::Train`].
    pub fn train<X>(
        &mut self,
        lend: impl FnOnce(&[Key], &mut dyn FnMut(&mut dyn Rows<T::Element>) -> bool) -> Result<(), X>,
    ) -> Result<Cost, X> {
        let current = self.current.as_ref().expect("a batch is being trained");
        let (task, scratch, keys) = (&self.task, &mut self.scratch, &self.keys);
        let (mut report, mut diverged) = (StepReport::default(), None);
        let step = (self.progress.epoch + 1, self.progress.batches + 1);
        lend(keys, &mut |rows| {
            report = task.train(scratch, &current.batch, keys, rows);
            diverged = (!report.loss.is_finite()).then(|| blame(step, report.loss, keys, rows));
            diverged.is_none()
        })?;
        self.diverged = diverged;
        let digest = current.digest;
        self.trained_batch(digest, &report);
        Ok(report.cost)
    }

    /// Lets `draw` append keys from each prepared handle: as many as the current batch wants.
    ///
    /// # Errors
    /// Whatever `draw` returns.
    ///
    /// # Panics
    /// If the last operation was not [`Op::PullSample`], or samples were not prepared.
    pub fn draw<X>(
        &mut self,
        mut draw: impl FnMut(&mut Handle, usize, &mut Vec<Key>) -> Result<(), X>,
    ) -> Result<(), X> {
        let current = self.current.as_mut().expect("draw follows PullSample");
        if !current.handles.is_empty() {
            self.handles = std::mem::take(&mut current.handles);
        }
        assert_eq!(self.handles.len(), current.samples.len(), "samples are prepared");
        for (handle, request) in self.handles.iter_mut().zip(&current.samples) {
            draw(handle, request.samples, &mut self.keys)?;
        }
        Ok(())
    }

    /// Takes a part of the stream that [`Op::Snapshot`] asked for.
    pub fn snapshot_part(&mut self, keys: &[Key], values: &[T::Element]) {
        if let Some(evaluation) = &mut self.evaluation {
            evaluation.part(keys, values);
        }
    }

    /// This worker's sums, for [`Op::Reduce`] and [`Op::Meet`]. At other times, the sums lack the last
    /// batches.
    pub fn reduction(&self) -> &Reduction {
        &self.reduction
    }

    /// The combined sums so far: one per epoch, then one of the test evaluation if there is one. The sums are
    /// `loss`, `examples` and those of [`Evaluation::finish`].
    pub fn combined(&self) -> &[Reduction] {
        &self.combined
    }

    /// Whether the current operation is part of the test: [`Op::Reduce`] then combines the sums of the test
    /// instead of those of an epoch.
    pub fn is_testing(&self) -> bool {
        let test = Split::Test;
        let states =
            [State::Evaluate(test), State::EvaluateStream(test), State::EvaluateEnd(test), State::TestReduce];
        states.contains(&self.state)
    }

    /// Whether an epoch with these combined sums is the last one; for [`Op::Reduce`].
    pub fn ends_with(&self, combined: &Reduction) -> bool {
        let patience = self.schedule.patience;
        self.progress.epoch + 1 >= self.schedule.epochs
            || patience.is_some_and(|patience| patience.ends(self.combined.iter().chain([combined])))
    }

    /// Whether validations have stopped improving.
    fn has_lost_patience(&self) -> bool {
        self.schedule.patience.is_some_and(|patience| patience.ends(&self.combined))
    }

    /// Takes the event that happened and returns the next operation.
    ///
    /// # Errors
    /// If a loss or an update is not finite.
    ///
    /// # Panics
    /// If the event does not answer the last operation.
    pub fn step(&mut self, event: Event<T::Batch>) -> Result<Op, Diverged> {
        match (self.state, event) {
            (State::Start, Event::Start) => {
                self.near = self.task.residents(self.partition);
                if self.near.is_empty() {
                    self.go(State::StartQuiesce, Op::Quiesce)
                } else {
                    self.go(State::Residents, Op::Localize { wait: true })
                }
            }
            (State::Residents, Event::Done) => self.go(State::StartQuiesce, Op::Quiesce),
            // Nothing moves between these two operations, so that measurements can be taken.
            (State::StartQuiesce, Event::Done) => self.go(State::StartBarrier, Op::Barrier),
            (State::StartBarrier, Event::Done) => Ok(self.start_epoch()),
            (State::Block | State::Near, Event::Done) => Ok(self.next_batch()),
            (State::Next, Event::Batch(prepared)) => Ok(self.receive(prepared)),
            (State::Sample, Event::Done) => Ok(self.start_pull()),
            (State::Pull, Event::Done) => self.compute(),
            (State::Compute, Event::Done) => self.go(State::Push, Op::Push),
            (State::Train, Event::Done) if self.diverged.is_some() => match self.diverged.take() {
                Some(diverged) => Err(diverged),
                None => unreachable!("checked in the guard"),
            },
            (State::Push | State::Train, Event::Done) if self.schedule.synchronous => {
                self.go(State::PushFlush, Op::Flush)
            }
            (State::Push | State::Train | State::PushFlush, Event::Done) => Ok(self.tick()),
            (State::Clock, Event::Done) => Ok(self.end_step()),
            (State::Synchronize, Event::Done) => Ok(self.meet_or_go_on()),
            (State::Meet, Event::Done) => Ok(self.next_batch()),
            (State::SubepochFlush, Event::Done) => self.go(State::SubepochBarrier, Op::Barrier),
            (State::SubepochBarrier, Event::Done) => {
                self.subepochs.start += 1;
                self.trained = 0;
                if self.schedule.meets {
                    self.settle();
                    self.go(State::SubepochMeet, Op::Meet)
                } else {
                    Ok(self.start_subepoch())
                }
            }
            (State::SubepochMeet, Event::Done) => Ok(self.start_subepoch()),
            (State::EpochFlush, Event::Done) => self.go(State::EpochQuiesce, Op::Quiesce),
            (State::EpochQuiesce, Event::Done) => {
                let every = self.schedule.valid_every;
                let due = every > 0 && (self.progress.epoch + 1).is_multiple_of(every);
                if due && self.schedule.epochs > 0 {
                    Ok(self.start_evaluation(Split::Valid))
                } else if self.schedule.epochs > 0 {
                    Ok(self.reduce_epoch())
                } else {
                    Ok(self.finish())
                }
            }
            (State::Evaluate(split), Event::Done) => {
                let evaluation = self.evaluation.as_mut().expect("evaluation is under way");
                evaluation.take(&self.values);
                let range = evaluation.range();
                if range.is_empty() {
                    Ok(self.end_evaluation(split))
                } else {
                    self.go(State::EvaluateStream(split), Op::Snapshot(range))
                }
            }
            (State::EvaluateStream(split), Event::Done) => Ok(self.end_evaluation(split)),
            (State::EvaluateEnd(Split::Valid), Event::Done) => Ok(self.reduce_epoch()),
            (State::EvaluateEnd(Split::Test), Event::Done) => self.go(State::TestReduce, Op::Reduce),
            (State::Reduce, Event::Reduced(combined)) => {
                self.task.epoch_ended(&mut self.scratch, &combined);
                self.combined.push(combined);
                self.reduction = Reduction::default();
                self.progress.epoch += 1;
                if self.progress.epoch < self.schedule.epochs && !self.has_lost_patience() {
                    Ok(self.start_epoch())
                } else {
                    Ok(self.finish())
                }
            }
            (State::TestReduce, Event::Reduced(combined)) => {
                self.combined.push(combined);
                self.go(State::Done, Op::Done)
            }
            (state, event) => {
                let event = match event {
                    Event::Start => "Start",
                    Event::Done => "Done",
                    Event::Batch(_) => "Batch",
                    Event::Reduced(_) => "Reduced",
                };
                panic!("event {event} does not answer the operation of {state:?}")
            }
        }
    }

    fn go(&mut self, state: State, op: Op) -> Result<Op, Diverged> {
        self.state = state;
        Ok(op)
    }

    fn start_epoch(&mut self) -> Op {
        if self.schedule.epochs == 0 {
            self.state = State::EpochQuiesce;
            return Op::Quiesce;
        }
        let epoch = self.progress.epoch;
        // A run that continues another one completes the epoch under way.
        let is_over = self.has_lost_patience() && self.course.rest(epoch).is_none();
        if epoch >= self.schedule.epochs || is_over {
            return self.finish();
        }
        self.subepochs = self.course.subepochs(epoch);
        let batches = |index| self.course.share(Subepoch { epoch, index }).batches();
        let batches_total = self.subepochs.clone().map(batches).sum();
        self.progress = Progress { epoch, batches_total, ..Progress::default() };
        (self.steps, self.steps_end) = (0, 0);
        self.start_subepoch()
    }

    fn start_subepoch(&mut self) -> Op {
        if self.subepochs.is_empty() {
            self.state = State::EpochFlush;
            return Op::Flush;
        }
        let subepoch = Subepoch { epoch: self.progress.epoch, index: self.subepochs.start };
        let share = self.course.share(subepoch);
        self.batches = share.batches();
        if self.schedule.synchronize.is_some() {
            let batches = self.course.shares(subepoch).map(|share| share.batches());
            self.steps_end += batches.max().unwrap_or(0);
        }
        if self.schedule.meets {
            let batches = self.course.shares(subepoch).map(|share| share.batches());
            self.fewest = batches.min().unwrap_or(0);
        }
        (self.received, self.trained) = (0, 0);
        self.near = self.course.block(subepoch, &share);
        if self.near.is_empty() {
            self.next_batch()
        } else {
            self.state = State::Block;
            Op::Localize { wait: true }
        }
    }

    /// Receives batches until as many are queued as are localized ahead, then trains the oldest.
    fn next_batch(&mut self) -> Op {
        if self.received < self.batches && self.queue.len() <= self.schedule.localize_ahead as usize {
            self.state = State::Next;
            return Op::NextBatch;
        }
        match self.queue.pop_front() {
            Some(prepared) => self.start_batch(prepared),
            None if self.skip_to_synchronization() => {
                self.state = State::Synchronize;
                Op::Synchronize
            }
            None if self.subepochs.len() > 1 => {
                self.state = State::SubepochFlush;
                Op::Flush
            }
            None => {
                self.state = State::EpochFlush;
                Op::Flush
            }
        }
    }

    /// A batch has been pushed: advances the clock if it is due, else continues.
    fn tick(&mut self) -> Op {
        self.trained += 1;
        let last = self.received == self.batches && self.queue.is_empty();
        let due = |every: NonZeroU32| self.trained.is_multiple_of(every.get().into());
        if last || self.schedule.clock_every.is_some_and(due) {
            self.state = State::Clock;
            return Op::AdvanceClock;
        }
        self.end_step()
    }

    /// A batch has been trained: synchronises if it is due, else continues.
    fn end_step(&mut self) -> Op {
        self.current = None;
        if let Some(every) = self.schedule.synchronize {
            self.steps += 1;
            if self.steps.is_multiple_of(every.get().into()) {
                self.state = State::Synchronize;
                return Op::Synchronize;
            }
        }
        self.meet_or_go_on()
    }

    /// Meets the other workers if a meeting is due, else continues.
    fn meet_or_go_on(&mut self) -> Op {
        let is_due = self.meeting == Some(self.trained) && self.trained < self.fewest;
        if self.schedule.meets && is_due && self.is_undivided() {
            self.settle();
            self.state = State::Meet;
            return Op::Meet;
        }
        self.next_batch()
    }

    /// Whether the epoch has one subepoch, and what is left of it can be dealt out again.
    fn is_undivided(&self) -> bool {
        self.subepochs == (0..1) && self.task.rests_within_epochs()
    }

    /// Skips the steps of this subepoch for which this worker has no batch, up to the next step after which
    /// the others synchronise. Returns whether there is such a step.
    fn skip_to_synchronization(&mut self) -> bool {
        let next =
            self.schedule.synchronize.map(|every| (self.steps + 1).next_multiple_of(every.get().into()));
        let due = next.filter(|next| *next <= self.steps_end);
        self.steps = due.unwrap_or(self.steps_end);
        due.is_some()
    }

    fn receive(&mut self, prepared: Prepared<T::Batch>) -> Op {
        self.received += 1;
        self.near.clear();
        if self.schedule.localize_ahead > 0 {
            self.near.extend_from_slice(&prepared.near);
            self.near.extend(prepared.handles.iter().flat_map(Handle::near));
            self.near.sort_unstable();
            self.near.dedup();
        }
        self.queue.push_back(prepared);
        if self.near.is_empty() {
            self.next_batch()
        } else {
            self.state = State::Near;
            Op::Localize { wait: false }
        }
    }

    fn start_batch(&mut self, prepared: Prepared<T::Batch>) -> Op {
        self.keys.clear();
        self.keys.extend_from_slice(&prepared.keys);
        self.direct_keys = prepared.keys.len();
        let samples = !prepared.samples.is_empty();
        self.current = Some(prepared);
        if samples {
            self.state = State::Sample;
            Op::PullSample
        } else {
            self.start_pull()
        }
    }

    fn elements(&self, keys: &[Key], of: impl Fn(&ModelRange) -> usize) -> usize {
        let model = self.task.model();
        keys.iter().map(|key| of(model.range(*key))).sum()
    }

    fn start_pull(&mut self) -> Op {
        if self.task.trains_in_place() {
            self.state = State::Train;
            return Op::Train;
        }
        let (direct, samples) = self.keys.split_at(self.direct_keys);
        self.direct_elements = self.elements(direct, VISIBLE);
        let elements = self.direct_elements + self.elements(samples, VISIBLE);
        self.direct_operands = self.elements(direct, ModelRange::operand);
        let operands = self.direct_operands + self.elements(samples, ModelRange::operand);
        self.values.resize(elements, T::Element::ZERO);
        self.update.clear();
        self.update.resize(operands, T::Element::ZERO);
        self.updated = None;
        self.state = State::Pull;
        Op::Pull
    }

    fn compute(&mut self) -> Result<Op, Diverged> {
        let current = self.current.as_ref().expect("a batch is being trained");
        let (keys, sample_keys) = self.keys.split_at(self.direct_keys);
        let (values, sample_values) = self.values.split_at(self.direct_elements);
        let (update, sample_update) = self.update.split_at_mut(self.direct_operands);
        let report = self.task.compute(
            &mut self.scratch,
            &current.batch,
            Pulled { keys, values, sample_keys, sample_values },
            &mut Update { values: update, sample_values: sample_update },
        );
        self.guard(report.loss)?;
        let digest = current.digest;
        self.trained_batch(digest, &report);
        if self.task.skips_zeros() {
            self.leave_zeros_out();
        }
        self.state = State::Compute;
        Ok(Op::Compute(report.cost))
    }

    /// Removes keys whose update is zero from the push.
    fn leave_zeros_out(&mut self) {
        let (mut updated, mut from, mut to) = (Vec::with_capacity(self.keys.len()), 0, 0);
        for key in &self.keys {
            let operand = from..from + self.task.model().range(*key).operand();
            from = operand.end;
            if self.update[operand.clone()].iter().any(|element| *element != T::Element::ZERO) {
                self.update.copy_within(operand.clone(), to);
                to += operand.len();
                updated.push(*key);
            }
        }
        self.update.truncate(to);
        self.updated = Some(updated);
    }

    /// Adds a trained batch to the sums and to the progress.
    fn trained_batch(&mut self, digest: u64, report: &StepReport) {
        self.reduction.digest = self.reduction.digest.wrapping_add(digest);
        let [loss, examples] =
            self.trained_sums.get_or_insert_with(|| TRAINED.map(|name| self.reduction.get(name)));
        *loss += report.loss;
        *examples += report.examples as f64;
        self.progress.batches += 1;
        self.progress.examples += report.examples;
        self.progress.loss += report.loss;
    }

    /// Refuses a step whose loss or update is infinite or NaN, before it is pushed.
    fn guard(&self, loss: f64) -> Result<(), Diverged> {
        if loss.is_finite() && kernel::all_finite(self.arch, &self.update) {
            return Ok(());
        }
        let first = |values: &[T::Element], of: fn(&ModelRange) -> usize| {
            let mut at = 0;
            self.keys.iter().find_map(|key| {
                let end = at + of(self.task.model().range(*key));
                let bad = values[at..end].iter().find(|v| !v.finite()).map(|v| (*key, v.to_f64()));
                at = end;
                bad
            })
        };
        let (what, key, value) = if let Some((key, value)) = first(&self.values, VISIBLE) {
            ("a pulled value", Some(key), value)
        } else if let Some((key, value)) = first(&self.update, ModelRange::operand) {
            ("an update", Some(key), value)
        } else {
            ("the loss", None, loss)
        };
        Err(Diverged { epoch: self.progress.epoch + 1, step: self.progress.batches + 1, key, what, value })
    }

    fn start_evaluation(&mut self, split: Split) -> Op {
        self.evaluation = self.task.evaluation(split, self.partition);
        match &self.evaluation {
            Some(evaluation) => {
                self.keys.clear();
                self.keys.extend_from_slice(evaluation.keys());
                self.values.resize(self.elements(&self.keys, VISIBLE), T::Element::ZERO);
                self.state = State::Evaluate(split);
                Op::Pull
            }
            None if split == Split::Valid => self.reduce_epoch(),
            None => {
                self.state = State::Done;
                Op::Done
            }
        }
    }

    /// Ends the evaluation with a quiesce, so that no worker continues to train before all have evaluated.
    fn end_evaluation(&mut self, split: Split) -> Op {
        let evaluation = self.evaluation.take().expect("evaluation is under way");
        self.settle_trained();
        self.reduction.merge(&evaluation.finish());
        self.state = State::EvaluateEnd(split);
        Op::Quiesce
    }

    /// Moves the sums over batches into `reduction`.
    fn settle_trained(&mut self) {
        for (name, sum) in TRAINED.into_iter().zip(self.trained_sums.take().into_iter().flatten()) {
            self.reduction.sums.insert(name.to_owned(), sum);
        }
    }

    fn settle(&mut self) {
        self.settle_trained();
        self.task.settle(&mut self.scratch, &mut self.reduction);
    }

    fn reduce_epoch(&mut self) -> Op {
        self.settle();
        self.state = State::Reduce;
        Op::Reduce
    }

    fn finish(&mut self) -> Op {
        if self.schedule.test {
            self.start_evaluation(Split::Test)
        } else {
            self.state = State::Done;
            Op::Done
        }
    }
}

/// The error of a batch trained in place: names a value of its rows that is not finite, or else the loss.
fn blame<E: Element>(step: (u32, u64), loss: f64, keys: &[Key], rows: &mut dyn Rows<E>) -> Diverged {
    let mut found = |at: usize| {
        let value = rows.row(at).iter().find(|value| !value.finite()).map(|value| value.to_f64());
        value.map(|value| (keys[at], value))
    };
    let (epoch, step) = step;
    match (0..keys.len()).find_map(&mut found) {
        Some((key, value)) => Diverged { epoch, step, key: Some(key), what: "a value", value },
        None => Diverged { epoch, step, key: None, what: "the loss", value: loss },
    }
}
