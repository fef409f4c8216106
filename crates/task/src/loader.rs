//! The look-ahead: prepares the batches of one worker before it needs them.

use crate::{BatchAt, Partition, Prepared, SampleRequest, Schedule, Subepoch, Task};
use intendant_sampling::Handle;
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
    current: Option<Prepared<T::Batch>>,
}

impl<T: Task> Loader<T> {
    /// A loader for one worker.
    pub fn new(task: Arc<T>, partition: Partition, schedule: &Schedule) -> Self {
        let subepoch = Subepoch { epoch: 0, index: 0 };
        let (mut subepochs, mut batches) = (0, 0);
        if schedule.epochs > 0 {
            subepochs = task.subepochs(0, partition);
            batches = if subepochs > 0 { task.batches(subepoch, partition) } else { 0 };
        }
        let at = BatchAt { subepoch, partition, index: 0 };
        Self { task, at, epochs: schedule.epochs, subepochs, batches, current: None }
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

    /// The batch to deliver.
    ///
    /// # Panics
    /// If the last operation was not [`LoaderOp::Deliver`].
    pub fn take(&mut self) -> Prepared<T::Batch> {
        self.current.take().expect("take follows Deliver")
    }

    /// Says what happened, asks what to do next.
    pub fn step(&mut self, event: LoaderEvent) -> LoaderOp {
        match event {
            LoaderEvent::Prepared(handle) => {
                let prepared = self.current.as_mut().expect("samples are prepared for a batch");
                prepared.handles.push(handle);
            }
            LoaderEvent::Start | LoaderEvent::Done => {
                if !self.advance() {
                    return LoaderOp::Done;
                }
                self.current = Some(self.task.prepare(self.at));
                self.at.index += 1;
            }
        }
        let prepared = self.current.as_ref().expect("a batch is being prepared");
        match prepared.samples.get(prepared.handles.len()) {
            Some(request) => LoaderOp::PrepareSample(*request),
            None => LoaderOp::Deliver,
        }
    }
}
