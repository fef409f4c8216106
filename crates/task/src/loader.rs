//! The look-ahead: prepares the batches of one worker before the worker needs them.

use crate::course::{Course, Share};
use crate::{Partition, Prepared, SampleRequest, Schedule, Start, Subepoch, Task};
use intendant_core::{Clock, Key};
use intendant_sampling::Handle;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

/// An operation that a [`Loader`] wants done. The interpreter does it and answers with the [`LoaderEvent`]
/// named here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoaderOp {
    /// Prepare these samples → [`LoaderEvent::Prepared`].
    PrepareSample(SampleRequest),
    /// Announce what the worker will access: call [`Loader::next_intent`] → [`LoaderEvent::Done`].
    Intend,
    /// Hand the batch ([`Loader::take`]) to the worker; wait if it is already far enough ahead →
    /// [`LoaderEvent::Done`].
    Deliver,
    /// No batch is left.
    Done,
}

/// What happened.
#[derive(Debug)]
pub enum LoaderEvent {
    /// The first event.
    Start,
    /// The operation is done.
    Done,
    /// The samples are prepared.
    Prepared(Handle),
}

/// The keys that a worker will access, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The keys, each once, ascending.
    pub keys: Vec<Key>,
    /// The clocks of the worker at which it accesses the keys. The worker advances its clock as
    /// [`Schedule::clock_every`] says, from 0.
    pub window: Range<Clock>,
}

impl Announcement {
    fn new(mut keys: Vec<Key>, window: Range<u32>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        Self { keys, window: Clock(window.start)..Clock(window.end) }
    }
}

/// How far a loader is ahead of its worker, or may be: a number of batches, and of the keys known to be in
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookAhead {
    /// Batches.
    pub batches: usize,
    /// Keys that these batches name, and samples that have already been chosen. These are the announced keys.
    /// (Samples that a node draws only when it needs them take no time to bring here.)
    pub keys: usize,
}

impl LookAhead {
    /// A batch.
    #[must_use]
    pub fn of<B>(prepared: &Prepared<B>) -> Self {
        let samples = prepared.handles.iter().map(|handle| handle.ahead().len()).sum::<usize>();
        Self { batches: 1, keys: prepared.keys.len() + samples }
    }

    /// The sum of this look-ahead and `more`.
    #[must_use]
    pub const fn and(self, more: Self) -> Self {
        Self { batches: self.batches + more.batches, keys: self.keys + more.keys }
    }

    /// This look-ahead without the batches that the worker has taken.
    #[must_use]
    pub const fn without(self, taken: Self) -> Self {
        Self { batches: self.batches - taken.batches, keys: self.keys - taken.keys }
    }

    /// Whether this is at least as far as `other`, in batches and in keys. A loader waits when it has reached
    /// its limit. The limit has two numbers because the batches of some tasks have a thousand keys, those of
    /// others two.
    #[must_use]
    pub const fn reaches(self, other: Self) -> bool {
        self.batches >= other.batches && self.keys >= other.keys
    }
}

/// Prepares the batches of one worker, epoch after epoch, as a program without I/O.
pub struct Loader<T: Task> {
    task: Arc<T>,
    partition: Partition,
    course: Course<T>,
    epochs: u32,
    /// The epoch, and indices of the current subepoch and of those that follow it.
    epoch: u32,
    subepochs: Range<u32>,
    /// The batches of the current subepoch, and how many of them have been prepared.
    share: Option<Share>,
    index: u64,
    /// Maximum number of batches that share handles.
    portions: usize,
    /// Prepared batches. The first is delivered next; those after it and before `grouped` draw from its
    /// handles.
    prepared: VecDeque<Prepared<T::Batch>>,
    /// For each of these batches its clock, and how many of its keys need not be announced: see
    /// [`Task::residents_of`].
    known: VecDeque<(u32, usize)>,
    /// The clock of the batch that is prepared next, and the number of batches per clock.
    clock: u32,
    clock_every: Option<NonZeroU32>,
    /// Announcements to make before the next batch is delivered; `None` if the schedule has no announcements.
    announcements: Option<Vec<Announcement>>,
    /// Whether residents have been announced.
    is_settled: bool,
    /// The last announcement, kept to reuse its memory.
    announced: Announcement,
    /// Whether the next batch has been announced.
    is_announced: bool,
    grouped: usize,
    /// Whether the next batch is the first of a group; handles are prepared for it.
    is_opening: bool,
}

/// Whether two batches want samples of the same distributions.
fn alike<B>(one: &Prepared<B>, other: &Prepared<B>) -> bool {
    one.samples.iter().map(|r| r.distribution).eq(other.samples.iter().map(|r| r.distribution))
}

impl<T: Task> Loader<T> {
    /// A loader for one worker.
    pub fn new(task: Arc<T>, partition: Partition, schedule: &Schedule) -> Self {
        Self::resume(task, partition, schedule, &Start::default())
    }

    /// A loader for one worker of a run that begins at `start`.
    pub fn resume(task: Arc<T>, partition: Partition, schedule: &Schedule, start: &Start) -> Self {
        let portions = schedule.sample_portions.get().next_multiple_of(task.portions().get()) as usize;
        let course = Course::new(Arc::clone(&task), partition, start.rest.clone());
        let epoch = start.epoch();
        let subepochs = if epoch < schedule.epochs { course.subepochs(epoch) } else { 0..0 };
        Self {
            task,
            partition,
            course,
            epochs: schedule.epochs,
            epoch,
            subepochs,
            share: None,
            index: 0,
            portions,
            prepared: VecDeque::new(),
            known: VecDeque::new(),
            clock: 0,
            clock_every: schedule.clock_every,
            announcements: schedule.intents.then(Vec::new),
            is_settled: false,
            announced: Announcement::new(Vec::new(), 0..0),
            is_announced: false,
            grouped: 0,
            is_opening: true,
        }
    }

    /// The batches of the current subepoch.
    fn batches(&self) -> u64 {
        self.share.as_ref().map_or(0, Share::batches)
    }

    /// Goes to the next batch; false if none is left.
    fn advance(&mut self) -> bool {
        while self.index >= self.batches() {
            if self.share.take().is_some() {
                self.subepochs.start += 1;
            }
            while self.subepochs.is_empty() {
                self.epoch += 1;
                if self.epoch >= self.epochs {
                    return false;
                }
                self.subepochs = self.course.subepochs(self.epoch);
            }
            let subepoch = Subepoch { epoch: self.epoch, index: self.subepochs.start };
            (self.share, self.index) = (Some(self.course.share(subepoch)), 0);
        }
        true
    }

    /// Prepares the next batch, and those that share its handles; false if none is left.
    fn prepare(&mut self) -> bool {
        if self.grouped > 0 {
            return true;
        }
        while self.prepared.len() < self.portions {
            let is_first = self.prepared.is_empty();
            // Handles do not outlive a subepoch: workers meet, and keys move, between them.
            if !is_first && self.index >= self.batches() {
                break;
            }
            if !self.advance() {
                return false;
            }
            let share = self.share.as_ref().expect("advance has found one");
            let at = share.batch(self.index);
            let next = self.task.prepare(at);
            let batches = share.batches();
            self.index += 1;
            // In an epoch that an earlier run has divided, rows may reside on other nodes.
            let is_own =
                (at.partition.workers, at.partition.nodes) == (self.partition.workers, self.partition.nodes);
            let residents = if is_own { self.task.residents_of(&next.batch) } else { 0 };
            self.known.push_back((self.clock, residents));
            // The driver advances its clock in the same way.
            let due = |every: NonZeroU32| self.index.is_multiple_of(every.get().into());
            self.clock += u32::from(self.index == batches || self.clock_every.is_some_and(due));
            let ends = self.prepared.front().is_some_and(|first| !alike(first, &next));
            self.prepared.push_back(next);
            if ends {
                // This batch is the first of the next group.
                self.grouped = self.prepared.len() - 1;
                return true;
            }
        }
        self.grouped = self.prepared.len();
        true
    }

    /// The samples for which the next handle is wanted: those of all batches of the group together.
    fn request(&self) -> Option<SampleRequest> {
        let group = self.prepared.iter().take(self.grouped);
        let first = self.prepared.front().filter(|_| self.is_opening)?;
        let index = first.handles.len();
        let request = first.samples.get(index)?;
        Some(SampleRequest { samples: group.map(|batch| batch.samples[index].samples).sum(), ..*request })
    }

    /// The batch to deliver.
    ///
    /// # Panics
    /// If the last operation was not [`LoaderOp::Deliver`].
    pub fn take(&mut self) -> Prepared<T::Batch> {
        self.grouped -= 1;
        self.known.pop_front();
        (self.is_opening, self.is_announced) = (false, false);
        self.prepared.pop_front().expect("take follows Deliver")
    }

    /// The batch to deliver next, if it is prepared.
    pub fn upcoming(&self) -> Option<&Prepared<T::Batch>> {
        self.prepared.front()
    }

    /// Determines what to announce of the next batch: its own keys for its clock; if it is the first of a
    /// group, also the group's samples, for the clocks of all batches of the group. Residents are announced
    /// before the first batch that uses some, for all clocks from then on.
    fn announce(&mut self) {
        if let Some(announcements) = self.announcements.as_mut().filter(|_| !self.is_announced) {
            let (first, (clock, residents)) = (&self.prepared[0], self.known[0]);
            if self.is_opening {
                let end = self.known[self.grouped - 1].0 + 1;
                let samples = first.handles.iter().flat_map(Handle::ahead).collect();
                announcements.push(Announcement::new(samples, clock..end));
            }
            let mut keys = std::mem::take(&mut self.announced.keys);
            keys.clear();
            keys.extend_from_slice(&first.keys[residents..]);
            announcements.push(Announcement::new(keys, clock..clock + 1));
            if residents > 0 && !std::mem::replace(&mut self.is_settled, true) {
                let all = self.task.residents(self.partition);
                announcements.push(Announcement::new(all, clock..u32::MAX));
            }
            announcements.retain(|announcement| !announcement.keys.is_empty());
            self.is_announced = true;
        }
    }

    /// The next announcement to make.
    ///
    /// # Panics
    /// If the last operation was not [`LoaderOp::Intend`].
    pub fn next_intent(&mut self) -> &Announcement {
        let next = self.announcements.as_mut().and_then(Vec::pop);
        self.announced = next.expect("next_intent follows Intend");
        &self.announced
    }

    /// Takes the event that happened and returns the next operation.
    pub fn step(&mut self, event: LoaderEvent) -> LoaderOp {
        match event {
            LoaderEvent::Prepared(handle) => {
                let first = self.prepared.front_mut().expect("samples are prepared for a batch");
                first.handles.push(handle);
            }
            LoaderEvent::Start | LoaderEvent::Done => {
                // After an announcement, the announced batch has yet to be delivered.
                if !self.is_announced {
                    self.is_opening |= self.grouped == 0;
                    if !self.prepare() {
                        return LoaderOp::Done;
                    }
                }
            }
        }
        if let Some(request) = self.request() {
            return LoaderOp::PrepareSample(request);
        }
        self.announce();
        match &self.announcements {
            Some(waiting) if !waiting.is_empty() => LoaderOp::Intend,
            _ => LoaderOp::Deliver,
        }
    }
}
