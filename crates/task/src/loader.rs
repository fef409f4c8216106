//! The look-ahead: prepares the batches of one worker before it needs them.

use crate::{BatchAt, Partition, Prepared, SampleRequest, Schedule, Task};
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
    partition: Partition,
    at: BatchAt,
    epochs: u32,
    batches: u64,
    current: Option<Prepared<T::Batch>>,
}

impl<T: Task> Loader<T> {
    /// A loader for one worker.
    pub fn new(task: Arc<T>, partition: Partition, schedule: &Schedule) -> Self {
        let batches = if schedule.epochs > 0 { task.batches(0) } else { 0 };
        let at = BatchAt { epoch: 0, index: u64::from(partition.worker) };
        Self { task, partition, at, epochs: schedule.epochs, batches, current: None }
    }

    /// Batches that `partition` trains in an epoch of `batches`.
    pub fn share(partition: Partition, batches: u64) -> u64 {
        batches.saturating_sub(u64::from(partition.worker)).div_ceil(u64::from(partition.workers))
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
                while self.at.index >= self.batches {
                    self.at = BatchAt { epoch: self.at.epoch + 1, index: u64::from(self.partition.worker) };
                    if self.at.epoch >= self.epochs {
                        return LoaderOp::Done;
                    }
                    self.batches = self.task.batches(self.at.epoch);
                }
                self.current = Some(self.task.prepare(self.at));
                self.at.index += u64::from(self.partition.workers);
            }
        }
        let prepared = self.current.as_ref().expect("a batch is being prepared");
        match prepared.samples.get(prepared.handles.len()) {
            Some(request) => LoaderOp::PrepareSample(*request),
            None => LoaderOp::Deliver,
        }
    }
}
