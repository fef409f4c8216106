//! The look-ahead: prepares the batches of one worker before it needs them.

use crate::{BatchAt, Partition, Prepared, SampleRequest, Schedule, Subepoch, Task};
use intendant_sampling::Handle;
use std::collections::VecDeque;
use std::sync::Arc;

/// What a [`Loader`] wants done. The interpreter does it and answers with the [`LoaderEvent`] named here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoaderOp {
    /// Prepare these samples → [`LoaderEvent::Prepared`].
    PrepareSample(SampleRequest),
    /// Hand the batch ([`Loader::take`]) to the worker; wait if it is already far enough ahead → [`LoaderEvent::Done`].
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

/// Prepares the batches of one worker, epoch after epoch, as a program without I/O.
pub struct Loader<T: Task> {
    task: Arc<T>,
    at: BatchAt,
    epochs: u32,
    /// Of the current epoch.
    subepochs: u32,
    /// Of the current subepoch.
    batches: u64,
    /// Batches that share handles, at most.
    portions: usize,
    /// Prepared batches: the first is next. The others before `grouped` draw from its handles.
    prepared: VecDeque<Prepared<T::Batch>>,
    grouped: usize,
    /// The first of a group is next, for which handles are prepared.
    is_opening: bool,
}

/// Whether two batches want samples of the same distributions.
fn alike<B>(one: &Prepared<B>, other: &Prepared<B>) -> bool {
    one.samples.iter().map(|r| r.distribution).eq(other.samples.iter().map(|r| r.distribution))
}

impl<T: Task> Loader<T> {
    /// A loader for one worker.
    pub fn new(task: Arc<T>, partition: Partition, schedule: &Schedule) -> Self {
        let subepoch = Subepoch { epoch: 0, index: 0 };
        let portions = schedule.sample_portions.get().next_multiple_of(task.portions().get()) as usize;
        let (mut subepochs, mut batches) = (0, 0);
        if schedule.epochs > 0 {
            subepochs = task.subepochs(0, partition);
            batches = if subepochs > 0 { task.batches(subepoch, partition) } else { 0 };
        }
        let at = BatchAt { subepoch, partition, index: 0 };
        Self {
            task,
            at,
            epochs: schedule.epochs,
            subepochs,
            batches,
            portions,
            prepared: VecDeque::new(),
            grouped: 0,
            is_opening: true,
        }
    }

    /// Goes to the next batch; false if none is left.
    fn advance(&mut self) -> bool {
        while self.at.index >= self.batches {
            let BatchAt { subepoch, partition, index } = &mut self.at;
            subepoch.index += 1;
            *index = 0;
            if subepoch.index >= self.subepochs {
                *subepoch = Subepoch { epoch: subepoch.epoch + 1, index: 0 };
                if subepoch.epoch >= self.epochs {
                    return false;
                }
                self.subepochs = self.task.subepochs(subepoch.epoch, *partition);
            }
            self.batches = if self.subepochs > 0 { self.task.batches(*subepoch, *partition) } else { 0 };
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
            if !is_first && self.at.index >= self.batches {
                break;
            }
            if !self.advance() {
                return false;
            }
            let next = self.task.prepare(self.at);
            self.at.index += 1;
            let ends = self.prepared.front().is_some_and(|first| !alike(first, &next));
            self.prepared.push_back(next);
            if ends {
                // It is the first of the next group.
                self.grouped = self.prepared.len() - 1;
                return true;
            }
        }
        self.grouped = self.prepared.len();
        true
    }

    /// The samples for which a handle is wanted next: for all batches of the group together.
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
        self.is_opening = false;
        self.prepared.pop_front().expect("take follows Deliver")
    }

    /// Says what happened, asks what to do next.
    pub fn step(&mut self, event: LoaderEvent) -> LoaderOp {
        match event {
            LoaderEvent::Prepared(handle) => {
                let first = self.prepared.front_mut().expect("samples are prepared for a batch");
                first.handles.push(handle);
            }
            LoaderEvent::Start | LoaderEvent::Done => {
                self.is_opening |= self.grouped == 0;
                if !self.prepare() {
                    return LoaderOp::Done;
                }
            }
        }
        self.request().map_or(LoaderOp::Deliver, LoaderOp::PrepareSample)
    }
}
